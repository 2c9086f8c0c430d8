#!/bin/sh
# scripts/modules.sh MODULE...: checks each module without go.work. This proves that no module
# imports a package that its go.mod does not permit. All checks run, even if one fails. `go mod
# verify` is not used: it reports modules without a dot in their name as damaged, and a build
# compares every download with go.sum anyway.
#
# A module of go.work is not compiled here. Its packages and tests must use the versions of go.work,
# so a build here would compile the same sources as the tests and lint do. The tests and lint
# compile and vet all packages. Other modules are built and vetted.
set -u
cd "${0%/*}/.." || exit 1
status=0
[ $# -gt 0 ] || { echo 'usage: scripts/modules.sh MODULE...' >&2 && exit 2; }

fail() {
	printf 'modules: %s: %s\n' "$module" "$*" >&2
	status=1
}

# check runs a command in the module, and reports it if it fails.
check() {
	"$@" || fail "$*"
}

# versions prints the versions of the modules outside the repository that the packages and tests of
# the current module use. It fails if an import cannot be resolved.
versions() {
	go list -deps -test -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{with .Replace}} {{.Path}} {{.Version}}{{end}}{{end}}{{end}}' ./... >"$lists/all" || return 1
	grep -v '^parley/' "$lists/all" | sort -u
}

lists=$(mktemp -d) || exit 1
trap 'rm -rf "$lists"' EXIT

for module in "$@"; do
	if [ -z "$(find "$module" -name '*.go' -print | head -n 1)" ]; then
		echo "module $module: no Go files"
		continue
	fi
	echo "module $module"
	workspace=$(grep -cxE "(use)?[[:space:]]*\./$module" go.work)
	cd "$module" || exit 1
	export GOWORK=off
	if [ "$workspace" = 0 ]; then
		check go build -o /dev/null ./... # without -o, a single main package would leave its binary here
		# This vets the tests, too, and thereby compiles them. The findings of vet come from
		# golangci-lint (govet): with Go 1.26, go vet omits findings about a package that was vetted
		# before as a dependency, because the cache does not distinguish the two.
		check go vet ./...
	elif ! versions >"$lists/own"; then
		fail 'has an import that its go.mod or go.sum does not provide'
	else
		unset GOWORK
		versions >"$lists/workspace" || fail 'go.work does not resolve all imports'
		diff "$lists/own" "$lists/workspace" || fail 'does not use the versions of go.work (>): run go work sync'
		export GOWORK=off
	fi
	check go mod tidy -diff
	cd - >/dev/null || exit 1
done

[ "$status" = 0 ] && echo 'modules: clean'
exit "$status"
