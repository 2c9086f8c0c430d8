// Package pdftest creates PDFs for tests: malicious files, and files with images, rotated pages or
// passwords.
package pdftest
