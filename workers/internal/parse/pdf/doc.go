// Package pdf reads PDF documents with the programs of poppler. Pages that consist of images are
// read with tesseract if it is installed. The package and these programs run only in the
// sandboxed reader process.
//
//	pdfinfo ─────────────────────► pages, title
//	pdftotext -tsv ─► scanner ─► page ─► layout ─► blocks
//	         page without words ─► pdftoppm ─► tesseract tsv ┘
package pdf
