// Package web contains the web pages: those that the ingress renders, and the bundles of the
// dashboard and the widget. Their sources, in TypeScript and CSS, are in the same folder, and
// `make web` builds dist from them. All of it is embedded in the binary, and pages load nothing
// from other servers.
//
//	pages/        templates: login and its like, the dashboard's one page, the documentation
//	dashboard/    the dashboard: app.tsx has the table of its pages
//	widget/       the chat that other sites embed
//	kit/          shared parts: server-sent events, Markdown
//	style/        tokens.css has the colours and measures of all pages
//	third_party/  packages of others, unchanged
package web
