// Package web holds what browsers get: the pages that the ingress renders, and the bundles of the dashboard and the widget, whose
// sources stand beside it in TypeScript and CSS. dist is made of them by `make web`; all of it is embedded in the binary, and
// nothing is loaded from elsewhere.
//
//	pages/        templates: login and its like, the dashboard's one page, the documentation
//	dashboard/    the dashboard: app.tsx has the table of its pages
//	widget/       what other sites embed
//	kit/          what both use: server-sent events, Markdown
//	style/        tokens.css has the colours and measures of all pages
//	third_party/  packages of others, unchanged
package web
