// Package pdf writes small PDF documents of plain text with a given number of pages, for
// tests and benchmarks.
package pdf
