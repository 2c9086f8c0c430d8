package formats

import (
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/epub"
	"parley/workers/internal/parse/markup"
	"parley/workers/internal/parse/office"
	"parley/workers/internal/parse/plain"
)

// All returns the readers of all formats except PDF.
func All() parse.Formats {
	return parse.Formats{
		parse.DOCX:      office.DOCX,
		parse.PPTX:      office.PPTX,
		parse.XLSX:      office.XLSX,
		parse.EPUB:      epub.EPUB,
		parse.HTML:      markup.HTML,
		parse.Markdown:  markup.Markdown,
		parse.Text:      plain.Text,
		parse.CSV:       plain.CSV,
		parse.TSV:       plain.TSV,
		parse.JSON:      plain.JSON,
		parse.JSONLines: plain.JSON,
	}
}
