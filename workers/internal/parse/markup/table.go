package markup

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"parley/workers/internal/document"
	"parley/workers/internal/invisible"
)

// These are the limits of tables. Columns beyond maxColumns are dropped.
const (
	maxColumns = 1000
	maxSpan    = 1000
)

// table writes a data table row by row. It writes the content of a layout table as ordinary text.
// The kind of the surrounding block, such as a list item, is restored afterwards.
func (w *walk) table(n *html.Node) {
	kind, level := w.kind, w.level
	defer func() { w.kind, w.level = kind, level }()
	w.kind, w.level = document.Paragraph, 0
	rows := w.rowsFor(n)
	if isLayoutTable(n, rows) {
		w.children(n)
		w.flush()
		return
	}

	// The caption precedes the rows, wherever it is in the table.
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && c.Data == "caption" {
			w.element(c)
		}
	}

	var below map[int]int // columns that cells of earlier rows occupy, with the number of further rows that these cells span
	for _, row := range rows {
		if w.err != nil {
			return
		}
		var cells []string
		var head bool
		if cells, head, below = w.row(row, below); len(cells) > 0 {
			w.err = w.out.Row(cells, head)
		}
	}
}

// rowsFor returns the rows of a table in the order of the source, but not the rows of nested
// tables. Hidden rows are omitted.
func (w *walk) rowsFor(n *html.Node) []*html.Node {
	var rows []*html.Node
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || invisible.Element(c, w.hidden) {
			continue
		}
		switch c.Data {
		case "tr":
			rows = append(rows, c)
		case "thead", "tbody", "tfoot":
			rows = append(rows, w.rowsFor(c)...)
		}
	}
	return rows
}

// isLayoutTable reports whether a table is used only for the layout of a page and contains no data.
// Such a table declares this role, has a single column, or contains headings, sections, forms,
// preformatted text or other tables.
func isLayoutTable(n *html.Node, rows []*html.Node) bool {
	if role := attr(n, "role"); role == "presentation" || role == "none" {
		return true
	}
	widest := 0
	for _, row := range rows {
		widest = max(widest, len(cellsFor(row)))
	}

	if widest <= 1 {
		return true
	}
	for d := range n.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		switch d.Data {
		case "table", "h1", "h2", "h3", "pre", "article", "section", "form":
			return true
		}
	}
	return false
}

// cellsFor returns the cells of a row.
func cellsFor(row *html.Node) []*html.Node {
	var cells []*html.Node
	for c := row.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && (c.Data == "td" || c.Data == "th") {
			cells = append(cells, c)
		}
	}
	return cells
}

// row returns the texts of a row by column. The argument below contains the columns that cells of
// earlier rows occupy. The result left contains these columns for the next row. The result head
// reports whether the row is a header row.
//
// A cell that spans several columns or rows has its text only in the first column and the first
// row. Columns beyond maxColumns are dropped.
func (w *walk) row(n *html.Node, below map[int]int) (texts []string, head bool, left map[int]int) {
	left = map[int]int{}
	head = true
	pass := func() { // pass skips columns that cells of earlier rows occupy
		for below[len(texts)] > 0 && len(texts) < maxColumns {
			if below[len(texts)] > 1 {
				left[len(texts)] = below[len(texts)] - 1
			}
			texts = append(texts, "")
		}
	}

	cells := cellsFor(n)
	for _, c := range cells {
		pass()
		head = head && c.Data == "th"
		down := span(c, "rowspan")
		text := ""
		if !invisible.Element(c, w.hidden) {
			text = w.inline(c)
		}
		for i := range span(c, "colspan") {
			if len(texts) >= maxColumns {
				break
			}
			if down > 1 {
				left[len(texts)] = down - 1
			}
			if i > 0 {
				text = ""
			}
			texts = append(texts, text)
		}
	}
	pass()
	return texts, len(cells) > 0 && (head || n.Parent.Data == "thead"), left
}

// span returns the value of a rowspan or colspan attribute, between 1 and maxSpan.
func span(n *html.Node, name string) int {
	v, err := strconv.Atoi(strings.TrimSpace(attr(n, name)))
	if err != nil {
		return 1
	}
	return min(max(v, 1), maxSpan)
}
