#!/bin/sh
# scripts/modules.sh MODULE...: each module must build, vet and be tidy by itself, without go.work: that is what keeps the
# import walls and each go.mod true. Every module is checked even when one failed. Not `go mod verify`: it takes modules
# whose names have no dot, as ours, for damaged ones; builds compare every download with go.sum anyway.
set -u
cd "${0%/*}/.." || exit 1
export GOWORK=off
status=0
[ $# -gt 0 ] || { echo 'usage: scripts/modules.sh MODULE...' >&2 && exit 2; }

# check runs a command in the module and says which one failed.
check() {
	"$@" || {
		printf 'modules: %s: %s\n' "$module" "$*" >&2
		status=1
	}
}

for module in "$@"; do
	if [ -z "$(find "$module" -name '*.go' -print | head -n 1)" ]; then
		echo "module $module: no Go files"
		continue
	fi
	echo "module $module"
	cd "$module" || exit 1
	check go build -o /dev/null ./... # without -o a lone main package would leave its binary here
	# For the sake of compiling the tests. What vet finds is lint's matter (govet): Go 1.26 forgets it here when the
	# package was vetted as another one's dependency before, for its cache does not tell the two apart.
	check go vet ./...
	check go mod tidy -diff
	cd - >/dev/null || exit 1
done

[ "$status" = 0 ] && echo 'modules: each stands by itself'
exit "$status"
