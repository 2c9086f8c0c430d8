// Package epub reads EPUB books. Each part of a book is a page, in reading order.
package epub
