// Package epub reads EPUB books. Each part in reading order is a page.
package epub
