// Package web holds the pages that the ingress renders: templates and one style sheet,
// embedded in the binary. They run no script and load nothing from elsewhere.
package web
