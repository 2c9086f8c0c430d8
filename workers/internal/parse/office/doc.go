// Package office reads Office formats: Word (DOCX), PowerPoint (PPTX) and Excel (XLSX). Package
// formats registers its three readers, which run only in the sandboxed reader process.
//
// Each reader opens the file's archive with the Go package pack, which limits the decompressed
// size, and follows the relationships from the main part to the other parts. It writes the text to
// a parse.Writer as headings, paragraphs, list items and table rows, and returns the title and the
// language. The returned information contains notes about the kinds of content that were omitted.
//
// The readers for Word and PowerPoint read the XML token by token and keep only the current
// paragraph or slide. The reader for Excel uses the library excelize, because the values of cells
// depend on number formats and shared strings.
//
// Macros, images and embedded files are never read.
package office
