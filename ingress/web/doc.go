// Package web contains everything that browsers load: the pages that the ingress renders, and the bundles of the dashboard and
// the widget. The sources of the bundles are TypeScript and CSS files in the folders of this package. `make web` writes the
// bundles to dist. The binary embeds all of these files, and pages load nothing from other hosts.
//
//	pages/        templates: sign-in pages, the dashboard's single page, the documentation
//	dashboard/    the dashboard: app.tsx contains the table of its pages
//	widget/       the chat that other sites embed
//	kit/          shared code: server-sent events, Markdown
//	style/        style sheets: tokens.css, measures.css and palette.css define colours and measures
//	third_party/  unmodified packages of other authors
package web
