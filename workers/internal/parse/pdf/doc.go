// Package pdf reads PDF documents with the programs of poppler, and pages that are only images with tesseract where that is
// installed. It runs in the sandboxed child only, and so do the programs.
//
//	pdfinfo ─────────────────────► pages, title
//	pdftotext -tsv ─► scanner ─► page ─► layout ─► blocks
//	         page without words ─► pdftoppm ─► tesseract tsv ┘
package pdf
