#!/bin/sh
# scripts/web.sh         bundles the dashboard, the widget and the style sheets into ingress/web/dist
# scripts/web.sh check   says whether they are what the sources give
#
# What is served under /assets has its content's hash in its name; widget.js keeps its name, for pages elsewhere name it.
set -eu
cd "${0%/*}/.."
top=$PWD out=${TMPDIR:-/tmp}/parley-web.$$
trap 'rm -rf "$out"' EXIT
cd ingress/web
export NODE_PATH=$PWD/third_party

bundle() { "$top/bin/esbuild" --log-level=warning --bundle --minify --target=es2022,chrome111,firefox115,safari16.4 --legal-comments=none --charset=utf8 --banner:js="/* Licences: /assets/licences.txt */" "$@"; }

bundle --format=esm --splitting --jsx=automatic --jsx-import-source=preact --entry-names='[name]-[hash]' --chunk-names='[name]-[hash]' \
	--outdir="$out" dashboard=dashboard/main.tsx dashboard-style=style/dashboard.css site-style=style/site.css docs-style=style/docs.css
bundle --format=iife --loader:.css=text --outfile="$out/widget.js" widget/main.ts
# What runs on the audio thread, and what colours code, are loaded by addresses of their own: pages without them load nothing for them.
bundle --format=iife --entry-names='[name]-[hash]' --outdir="$out" voice-worklet=dashboard/voice/worklet.ts
bundle --format=esm --entry-names='[name]-[hash]' --outdir="$out" highlight=kit/highlight.ts

# The licences of others' packages go with them.
{
	echo 'The pages of Parley hold these packages of others, unchanged. Parley itself is licensed under Apache-2.0.'
	for licence in third_party/*/LICENSE*; do
		package=${licence#third_party/}
		printf '\n== %s\n\n' "${package%%/*}"
		cat "$licence"
	done
} >"$out/licences.txt"

if [ "${1:-}" = check ]; then
	diff -rq "$out" dist || { echo 'ingress/web/dist is not what its sources give: run make web' >&2 && exit 1; }
	exit 0
fi
rm -rf dist
mv "$out" dist
ls -l dist | awk 'NR > 1 { printf "  %7d  %s\n", $5, $9 }'
