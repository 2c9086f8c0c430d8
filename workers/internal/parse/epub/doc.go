// Package epub reads EPUB books in versions 2 and 3. Each part of a book is a page, in reading
// order. Package formats registers its reader, which runs only in the sandboxed reader process.
//
// A book is an archive. Its container file names the package document, which lists the files of the
// book (the manifest) and the reading order (the spine). The pages themselves are XHTML, which
// package markup reads. Titles of pages come from the table of contents.
//
// Copy-protected books are rejected. Images, styles and scripts are ignored.
package epub
