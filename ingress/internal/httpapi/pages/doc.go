// Package pages writes the responses for browsers: HTML pages, error pages, and assets. It sets their
// headers, compresses assets, and checks the queries of pages. It is the kit of the packages that
// have pages, account and site.
package pages
