// Package pages writes the responses for browsers: HTML pages, error pages, and assets. It sets their
// headers, sends assets compressed to clients that accept it, and checks the queries of pages. The
// packages account and site use it.
package pages
