#!/bin/sh
# scripts/cacheable.sh PACKAGES...: lists the packages whose test results go test may cache. Such
# tests start no process: neither they nor the packages that they link import os/exec, except
# packages of the standard library. The tests also depend on no property of the machine and read no
# file outside their module, because go test would not notice when these change.
set -eu
cd "${0%/*}/.."
[ $# -gt 0 ] || { echo 'usage: scripts/cacheable.sh PACKAGES...' >&2 && exit 2; }

go list -deps -test -f '{{if not .Standard}}{{.ImportPath}}|{{.Dir}}|{{join .Imports " "}} |{{join .Deps " "}}{{end}}' "$@" |
	sed 's/ \[[^] ]*\.test\]//g' | # remove the suffix of packages that are compiled again for a test
	awk -F '|' '
		(" " $3) ~ / os\/exec / { starts[$1] = 1 }
		$1 ~ /\.test$/ { dir[$1] = $2; linked[$1] = $4 }
		END {
			for (test in linked) {
				n = split(linked[test], deps, " ")
				for (i = 1; i <= n && !(deps[i] in starts); i++);
				if (i > n) print substr(test, 1, length(test) - 5), dir[test]
			}
		}' |
	while read -r package dir; do
		grep -qE '"(\.\./){3}[^"]|"/(proc|sys|etc|dev)/' "$dir"/*_test.go || echo "$package"
	done | sort
