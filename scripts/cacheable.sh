#!/bin/sh
# scripts/cacheable.sh PACKAGES...: lists the packages whose test results go test may cache. Such
# tests start no process: neither they nor the packages that they link import os/exec, except
# packages of the standard library. The tests also depend on no property of the machine and read no
# file outside their module, because go test would not notice when these change.
set -eu
cd "${0%/*}/.."
[ $# -gt 0 ] || { echo 'usage: scripts/cacheable.sh PACKAGES...' >&2 && exit 2; }

# A package that is compiled again for a test has the suffix " [….test]": its imports count only for
# this test.
go list -deps -test -f '{{if not .Standard}}{{.ImportPath}}|{{.Dir}}|{{with .Module}}{{.Dir}}{{end}}|,{{join .Imports ","}},|{{join .Deps ","}}{{end}}' "$@" |
	awk -F '|' '
		$4 ~ /,os\/exec,/ { starts[$1] = 1 }
		$1 ~ /\.test$/ { dir[$1] = $2; module[$1] = $3; linked[$1] = $5 }
		END {
			for (test in linked) {
				n = split(linked[test], deps, ",")
				for (i = 1; i <= n && !(deps[i] in starts); i++);
				if (i <= n) continue
				up = split(substr(dir[test], length(module[test]) + 1), _, "/") # number of ../ that lead out of the module
				print substr(test, 1, length(test) - 5), (up ? up : 1), dir[test]
			}
		}' |
	while read -r package up dir; do
		grep -qE "\"(\.\./){$up}[^\"]|\"/(proc|sys|etc|dev)/" "$dir"/*_test.go || echo "$package"
	done | sort
