// Package site responds with the pages and assets that are the same for all organizations: the page
// that loads the dashboard, the scripts of the dashboard and the widget, and the documentation. It
// renders the documentation once, at the first request. Only results of searches are rendered for
// each request.
package site
