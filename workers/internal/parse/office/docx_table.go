package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// maxSpan is the number of columns of a row after which further cells are dropped. It is also the
// maximum number of columns that a cell spans.
const maxSpan = 1000

// tableRow is a row that is being read. A page break inside of a row is moved before the row if no
// part of the row has been read yet, and otherwise after the row. Several cells may contain the
// same break, which begins only one page.
type tableRow struct {
	// cells contains the text of each column. A cell that spans several columns is followed by ""
	// for each further column.
	cells []string
	// head is true if the row repeats at the top of each page, or names the columns.
	head bool
	// touched is true if text of the row has been read.
	touched bool
	// The fields before and after are true if a page begins on that side of the row.
	before, after bool
}

// touch records that text of the row has been read. A nil row, outside of tables, is ignored.
func (r *tableRow) touch() {
	if r != nil {
		r.touched = true
	}
}

// pageBreak records a page break inside of a row.
func (r *tableRow) pageBreak(w *word) {
	if w.holding > 1 { // the break is inside of a nested table
		return
	}
	if r.touched {
		r.after = true
	} else {
		r.before = true
	}
}

// table reads a table. A table with a single column is only used for layout, so its content is
// written as ordinary text.
//
// Rows are written while the table is read. Only the first row is delayed, because it is examined
// together with the number of columns to find out whether it is a header.
func (w *word) table() error {
	outer := w.row
	defer func() { w.row = outer }()
	columns, rows := 0, 0
	var first *tableRow // the first row, which is not written before a second row shows that this is a data table
	err := w.e.Each(func(s xml.StartElement) (err error) {
		switch s.Name.Local {
		case "tblGrid":
			columns, err = w.grid()
		case "tr":
			if columns == 1 {
				return w.blocks()
			}
			r, err := w.tableRow()
			if err != nil {
				return err
			}
			if rows++; rows == 1 {
				first = r
				return nil
			}
			before := first
			first = nil
			return w.writeRows(before, r, columns)
		default:
			_, err = w.skipIgnored(s)
		}
		return err
	})
	if err != nil {
		return err
	}
	// The table has only one row, which cannot be the header of other rows.
	if first != nil {
		if err := w.writeRow(first); err != nil {
			return err
		}
	}
	return w.flushNotes()
}

// writeRows writes the row r. If the table's first row has not been written yet, it is passed as
// first and written before r. The first row is written as a header if it is marked as one or looks
// like one. columns is the number of columns that the table declares.
func (w *word) writeRows(first, r *tableRow, columns int) error {
	if first != nil {
		first.head = first.head || parse.NamesColumns(first.cells, max(columns, len(r.cells)))
		if err := w.writeRow(first); err != nil {
			return err
		}
	}
	return w.writeRow(r)
}

// grid returns the number of columns that a table declares.
func (w *word) grid() (columns int, err error) {
	err = w.e.Each(func(s xml.StartElement) error {
		if s.Name.Local == "gridCol" {
			columns++
		}
		return nil
	})
	return columns, err
}

// writeRow writes a row and its page breaks. It clears w.row, so that nextPage begins a page
// instead of recording a break.
func (w *word) writeRow(r *tableRow) error {
	w.row = nil
	if r.before {
		if err := w.nextPage(); err != nil {
			return err
		}
	}

	if err := w.put(document.Block{Kind: document.Row, Head: r.head, Text: parse.Cells(r.cells)}); err != nil {
		return err
	}
	if r.after {
		return w.nextPage()
	}
	return nil
}

// tableRow reads a row. During the call, w.row is this row, so page breaks in the cells are recorded
// in the row. The caller writes the row.
func (w *word) tableRow() (*tableRow, error) {
	r := &tableRow{}
	outer := w.row
	w.row = r
	defer func() { w.row = outer }()
	err := w.e.Each(func(s xml.StartElement) (err error) {
		switch s.Name.Local {
		case "trPr":
			r.head, err = w.headRow()
		case "tc":
			err = w.cell(r)
		default:
			_, err = w.skipIgnored(s)
		}
		return err
	})
	return r, err
}

// headRow reads the properties of a row, and reports whether the row is a header row.
func (w *word) headRow() (head bool, err error) {
	err = w.e.Each(func(s xml.StartElement) error {
		if s.Name.Local == "tblHeader" {
			head = on(s)
		}
		return nil
	})
	return head, err
}

// cell reads a cell and appends its paragraphs to r as one text, separated by newlines. A cell that
// spans several columns is followed by empty cells. If the row already has maxSpan columns, the
// cell is dropped.
func (w *word) cell(r *tableRow) error {
	span := 1
	texts, err := w.hold(func() error {
		return w.e.Each(func(s xml.StartElement) (err error) {
			switch s.Name.Local {
			case "gridSpan":
				span, _ = strconv.Atoi(pack.Attr(s, "val"))
			case "p":
				err = w.paragraph()
			case "tbl":
				err = w.table()
			// Properties and content controls are wrappers, whose children are read.
			case "tcPr", "sdt", "sdtContent":
			default:
				_, err = w.skipIgnored(s)
			}
			return err
		})
	})

	if err != nil || len(r.cells) >= maxSpan {
		return err
	}
	r.cells = append(r.cells, strings.Join(texts, "\n"))
	for range min(max(span, 1), maxSpan) - 1 {
		r.cells = append(r.cells, "")
	}
	return nil
}
