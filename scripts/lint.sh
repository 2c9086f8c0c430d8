#!/bin/sh
# scripts/lint.sh MODULE...: runs golangci-lint for each module, and gofumpt. It also checks the
# sizes of files, packages and types, the syntax of shell scripts, the bundles of the web pages, and
# that no text contains a banned word. With FIX=1, golangci-lint and gofumpt first fix what they
# can. All checks run, and the exit code is non-zero if any of them failed.
set -u
cd "${0%/*}/.." || exit 1
top=$PWD status=0
[ $# -gt 0 ] || { echo 'usage: scripts/lint.sh MODULE...' >&2 && exit 2; }

fail() {
	printf 'lint: %s\n' "$*" >&2
	status=1
}

for module in "$@"; do
	if [ -z "$(find "$module" -name '*.go' -print | head -n 1)" ]; then
		echo "lint $module: no Go files"
		continue
	fi
	echo "lint $module"
	case $module in tools/*) export GOWORK=off ;; *) unset GOWORK ;; esac
	(cd "$module" && "$top/bin/golangci-lint" run --config "$top/.golangci.yml" ${FIX:+--fix} ./...) || fail "golangci-lint: $module"
done

[ -z "${FIX:-}" ] || bin/gofumpt -w "$@"
unformatted=$(bin/gofumpt -l "$@") || fail 'gofumpt could not read all files'
[ -z "$unformatted" ] || fail "not formatted (run make fmt):
$unformatted"

# A file has at most 500 lines, a test file 800. Generated files have no limit.
sources=$(find "$@" sdk \( -name node_modules -o -name dist -o -name third_party \) -prune -o -type f \
	\( -name '*.go' -o -name '*.py' -o -name '*.ts' -o -name '*.tsx' -o -name '*.mjs' \) -print | sort -u)
written=$(echo "$sources" | xargs grep -LE '^(//|#) Code generated .* DO NOT EDIT\.$')
long=$(echo "$written" | xargs wc -l | grep -v ' total$' |
	awk '{ cap = ($2 ~ /_test\.go$|\/test_[a-z_]+\.py$/) ? 800 : 500; if ($1 > cap) printf "%s: %d lines, limit %d\n", $2, $1, cap }')
[ -z "$long" ] || fail "file too long:
$long"

# A package has at most 4,000 lines in 30 files. Tests and generated files do not count.
large=$(echo "$written" | grep '\.go$' | grep -v '_test\.go$' | xargs -n 1 wc -l |
	awk '{ dir = $2; sub("/[^/]*$", "", dir); lines[dir] += $1; files[dir]++ }
		END { for (dir in lines) if (lines[dir] > 4000 || files[dir] > 30) printf "%s: %d lines in %d files\n", dir, lines[dir], files[dir] }')
[ -z "$large" ] || fail "package too large (limit: 4,000 lines, 30 files):
$large"

# A type has at most 40 methods. Methods in tests do not count.
wide=$(find "$@" -name '*.go' ! -name '*_test.go' -exec awk '
		/^func \([a-zA-Z_]* *\*?[A-Za-z_]+(\[[^]]*\])?\) / {
			dir = FILENAME; sub("/[^/]*$", "", dir)
			type = $0; sub(/^func \([a-zA-Z_]* *\*?/, "", type); sub(/[^A-Za-z_].*/, "", type)
			print dir, type
		}' {} + | sort | uniq -c | awk '$1 > 40 { printf "%s: %s has %d methods\n", $2, $3, $1 }')
[ -z "$wide" ] || fail "too many methods (limit: 40 per type):
$wide"

for script in scripts/setup .ci/run .ci/containers $(find scripts deploy -name '*.sh' -print); do
	case $(head -n 1 "$script") in
	*bash*) bash -n "$script" || fail "shell syntax: $script" ;;
	*) sh -n "$script" || fail "shell syntax: $script" ;;
	esac
done

scripts/web.sh check || fail 'bundles of the web pages'

# Documents, messages, web pages and comments contain no banned words.
(unset GOWORK && go run ./scripts/words) || fail 'banned words (CONTRIBUTING.md, "Glossary")'

[ "$status" = 0 ] && echo 'lint: clean'
exit "$status"
