// Package site responds with the pages and assets that are the same for all organizations: the page
// that loads the dashboard, the scripts of the dashboard and the widget, and the documentation. It
// renders the documentation once, at the first request.
package site
