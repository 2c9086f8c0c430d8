// Package pdf reads PDF documents with the programs of poppler. For pages that consist of images,
// it uses tesseract if that is installed. The package and these programs run only in the sandboxed
// reader process.
//
//	pdfinfo ─────────────────────► pages, title
//	pdftotext -tsv ─► scanner ─► page ─► layout ─► blocks
//	         page without words ─► pdftoppm ─► tesseract tsv ┘
//
// Several processes of pdftotext read different ranges of pages, while this process writes earlier
// pages in order. The files are:
//
//   - ranges.go: starts the processes and bounds the pages that wait in memory
//   - tsv.go: parses the output into words, lines and blocks with positions
//   - layout.go, table.go and text.go: convert a page to headings, paragraphs, items and rows
//   - images.go: recognizes the text of pages that are images
//   - picture.go: renders a page for the dashboard
//
// The programs parse untrusted data. They inherit the sandbox and the remaining processor time of
// this process. Their outputs are untrusted as well, so all sizes and numbers in them are limited.
package pdf
