#!/bin/sh
# scripts/web.sh         bundles the dashboard, the widget and the style sheets into ingress/web/dist
# scripts/web.sh check   fails if ingress/web/dist differs from the sources' bundles
#
# Names under /assets contain a hash of the content. widget.js and widget-files.js keep their names, because pages of other
# sites load them.
set -eu
cd "${0%/*}/.."
top=$PWD out=${TMPDIR:-/tmp}/parley-web.$$
widget=$out.widget
trap 'rm -rf "$out" "$widget"' EXIT
cd ingress/web
export NODE_PATH=$PWD/third_party

bundle() { "$top/bin/esbuild" --log-level=warning --bundle --minify --target=es2022,chrome111,firefox115,safari16.4 --legal-comments=none --charset=utf8 --banner:js="/* Licences: /assets/licences.txt */" "$@"; }

bundle --format=esm --splitting --jsx=automatic --jsx-import-source=preact --entry-names='[name]-[hash]' --chunk-names='[name]-[hash]' \
	--outdir="$out" dashboard=dashboard/main.tsx dashboard-style=style/dashboard.css site-style=style/site.css docs-style=style/docs.css \
	reference-style=style/reference.css guide-style=style/guide.css
# The scripts of the widget contain its style sheets as texts, which esbuild does not minify. The
# style sheets are minified in a copy of the sources.
mkdir -p "$widget/ingress/web" "$widget/sdk/typescript/src"
cp -R widget kit tsconfig.json "$widget/ingress/web"
cp "$top/sdk/typescript/tsconfig.json" "$widget/sdk/typescript"
cp "$top/sdk/typescript/src/sse.ts" "$widget/sdk/typescript/src" # the only module of the SDK whose code the pages use
cd "$widget/ingress/web" # names with a hash depend on the paths of the sources
bundle --allow-overwrite --outdir=widget widget/style.css widget/files.css
bundle --format=iife --loader:.css=text --outfile="$out/widget.js" widget/main.ts
bundle --format=esm --loader:.css=text --outfile="$out/widget-files.js" widget/files.ts
bundle --format=esm --loader:.css=text --entry-names='[name]-[hash]' --outdir="$out" widget-preview=widget/preview.ts
cd "$top/ingress/web"
# The audio worklet, the highlighter, the scripts of the documentation and the widget's preview are
# separate files without shared parts, so that each page loads only what it uses. The theme of the
# documentation is not a module, because browsers run modules after the first paint.
bundle --format=iife --entry-names='[name]-[hash]' --outdir="$out" voice-worklet=dashboard/voice/worklet.ts docs-theme=reference/theme.ts
bundle --format=esm --entry-names='[name]-[hash]' --outdir="$out" highlight=kit/highlight.ts docs-console=reference/console.ts docs-copy=reference/copy.ts

# Collect the licences of third-party packages in one file.
{
	echo "Parley's web pages include these third-party packages, unchanged. Parley itself is licensed under Apache-2.0."
	for licence in third_party/*/LICENSE*; do
		package=${licence#third_party/}
		printf '\n== %s\n\n' "${package%%/*}"
		cat "$licence"
	done
} >"$out/licences.txt"

if [ "${1:-}" = check ]; then
	diff -rq "$out" dist || { echo 'ingress/web/dist is out of date; run make web' >&2 && exit 1; }
	exit 0
fi
rm -rf dist
mv "$out" dist
ls -l dist | awk 'NR > 1 { printf "  %7d  %s\n", $5, $9 }'
