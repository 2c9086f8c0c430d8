// Package epub reads EPUB books: what is read one after the other, each part a page.
package epub
