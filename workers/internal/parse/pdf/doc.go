// Package pdf reads PDF documents with the programs of poppler. For pages that consist of images,
// it uses tesseract if that is installed. The package and these programs run only in the sandboxed
// reader process.
//
//	pdfinfo ─────────────────────► pages, title
//	pdftotext -tsv ─► scanner ─► page ─► layout ─► blocks
//	         page without words ─► pdftoppm ─► tesseract tsv ┘
package pdf
