#!/bin/sh
# scripts/build.sh NAME PACKAGE [TOOL_MODULE]: builds bin/NAME. If bin/NAME does not exist yet, the
# script prints a line about the build's progress. On a terminal, this line shows the elapsed
# seconds and the number of downloaded modules.
#
# With TOOL_MODULE, the package comes from that module, outside go.work. The output of the build is
# printed only if the build fails.
set -u
cd "${0%/*}/.." || exit 1
name=$1 package=$2 module=${3:-}
binary=$PWD/bin/$name
mkdir -p bin

first=no
[ -e "$binary" ] || first=yes
log=$(mktemp) || exit 1
ticker=''
# shellcheck disable=SC2329 # called by the trap
finish() {
	[ -z "$ticker" ] || { kill "$ticker" 2>/dev/null; printf '\n'; }
	rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT TERM

line="building $name (first time: about a minute)…"
if [ "$first" = yes ] && [ -t 1 ]; then
	(
		elapsed=0
		while :; do
			printf '\r%s %d s, %d modules downloaded ' "$line" "$elapsed" "$(grep -c '^go: downloading' "$log")"
			sleep 1 && elapsed=$((elapsed + 1))
		done
	) &
	ticker=$!
elif [ "$first" = yes ]; then
	printf '%s\n' "$line"
fi

if [ -n "$module" ]; then cd "$module" && export GOWORK=off; fi
if ! go build -buildvcs=false -o "$binary" "$package" 2>"$log"; then
	grep -v '^go: downloading' "$log" >&2
	exit 1
fi
touch "$binary" # go build does not change the time of an up-to-date binary, so make would build it again each time
