#!/bin/sh
# scripts/modules.sh MODULE...: builds and vets each module without go.work, and checks its go.mod.
# This proves that no module imports a package that its go.mod does not permit. All checks run, even
# if one fails. `go mod verify` is not used: it reports modules without a dot in their name as
# damaged, and a build compares every download with go.sum anyway.
set -u
cd "${0%/*}/.." || exit 1
export GOWORK=off
status=0
[ $# -gt 0 ] || { echo 'usage: scripts/modules.sh MODULE...' >&2 && exit 2; }

# check runs a command in the module, and reports it if it fails.
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
	check go build -o /dev/null ./... # without -o, a single main package would leave its binary here
	# This vets the tests, too, and thereby compiles them. The findings of vet come from
	# golangci-lint (govet): with Go 1.26, go vet omits findings about a package that was vetted
	# before as a dependency, because the cache does not distinguish the two.
	check go vet ./...
	check go mod tidy -diff
	cd - >/dev/null || exit 1
done

[ "$status" = 0 ] && echo 'modules: clean'
exit "$status"
