#!/usr/bin/env bash
# scripts/fuzz.sh MODULE...: runs every fuzz target for FUZZTIME (10s), one after another. It prints
# a failing input and keeps it in the package's testdata/fuzz, so that `make test` uses it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ $# -gt 0 ] || { echo 'usage: scripts/fuzz.sh MODULE...' >&2 && exit 2; }

readonly time=${FUZZTIME:-10s}
failed=() ran=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# attempt PACKAGE NAME TIME runs one target of the built binary for TIME. A timeout ends a target
# that hangs.
attempt() {
	(cd "$1" && timeout --kill-after=10 120 "$work/target" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$3" \
		-test.fuzzcachedir "$(go env GOCACHE)/fuzz/parley/$1" >"$work/log" 2>&1 </dev/null)
}

# overdue reports whether a target failed only because its time ended. The fuzzing engine reports a
# failure if a worker is executing an input at that moment.
overdue() { grep -qE '^ +context deadline exceeded$' "$work/log" && ! grep -q 'Failing input written' "$work/log"; }

# target PACKAGE NAME runs a target. It succeeds only if the target has tried inputs besides the
# seeds. On a slow machine that may take longer than FUZZTIME.
target() {
	local started=$SECONDS execs=''
	printf 'fuzz %s %s\n' "$1" "$2"
	for try in "$time" 60s; do
		attempt "$1" "$2" "$try" || overdue || break
		execs=$(grep -oE 'execs: [1-9][0-9]*' "$work/log" | tail -n 1)
		[ -z "$execs" ] || break
	done
	if [ -n "$execs" ]; then
		printf '     %s, %d s\n' "$execs" $((SECONDS - started))
		return
	fi
	failed+=("$2")
	tail -n 60 "$work/log"
	sed -nE 's,^ *Failing input written to (.*)$,\1,p' "$work/log" | while read -r input; do
		printf 'failing input %s/%s:\n' "$1" "$input" && cat "$1/$input"
	done
}

# Each package with targets is built once, with the instrumentation for fuzzing.
for package in $(grep -rlE --include='*_test.go' '^func Fuzz[A-Z]' "$@" | xargs -r -n 1 dirname | sed 's,^\./,,' | sort -u); do
	if ! go test -c -fuzz . -o "$work/target" "./$package"; then
		failed+=("$package")
		continue
	fi
	for name in $("$work/target" -test.list '^Fuzz'); do
		target "$package" "$name"
		ran=$((ran + 1))
	done
done

printf 'fuzz: %d targets in %d s, %d failed' "$ran" "$SECONDS" "${#failed[@]}"
[ "${#failed[@]}" = 0 ] || printf ' (%s)' "${failed[*]}"
printf '\n'
[ "$ran" -gt 0 ] && [ "${#failed[@]}" = 0 ]
