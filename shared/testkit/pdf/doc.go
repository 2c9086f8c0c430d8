// Package pdf writes small PDF documents of plain text, for tests and measurements that need some of a given number of pages.
package pdf
