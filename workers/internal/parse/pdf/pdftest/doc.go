// Package pdftest makes PDFs for tests: malicious files, and files with images, rotation or
// passwords.
package pdftest
