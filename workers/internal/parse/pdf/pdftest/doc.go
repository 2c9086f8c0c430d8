// Package pdftest makes PDFs for tests that no honest program makes, and some that one would: of images, rotated, with passwords.
package pdftest
