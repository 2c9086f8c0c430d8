package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// maxSpan is how many columns a cell may span, and a row have.
const maxSpan = 1000

// tableRow is a row that is being read. A page that ends in it ends before it where nothing of the row was read yet, else behind
// it: once, though each of its cells may say so.
type tableRow struct {
	cells         []string
	head          bool
	touched       bool
	before, after bool
}

func (r *tableRow) touch() {
	if r != nil {
		r.touched = true
	}
}

func (r *tableRow) broken(w *word) {
	if w.holding > 1 { // a table in a table
		return
	}
	if r.touched {
		r.after = true
	} else {
		r.before = true
	}
}

// table reads a table. One of a single column is there for the looks: what is in it is told as it is.
func (w *word) table() error {
	outer := w.row
	defer func() { w.row = outer }()
	columns, rows := 0, 0
	var first *tableRow // held until it is known that others follow
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
			return w.tellRows(before, r, columns)
		default:
			_, err = w.pass(s)
		}
		return err
	})
	if err != nil {
		return err
	}
	if first != nil {
		if err := w.tellRow(first); err != nil {
			return err
		}
	}
	return w.flushNotes()
}

// tellRows tells a row, and before it the first one when that was held: it names the columns when it looks like that.
func (w *word) tellRows(first, r *tableRow, columns int) error {
	if first != nil {
		first.head = first.head || parse.NamesColumns(first.cells, max(columns, len(r.cells)))
		if err := w.tellRow(first); err != nil {
			return err
		}
	}
	return w.tellRow(r)
}

func (w *word) grid() (columns int, err error) {
	err = w.e.Each(func(s xml.StartElement) error {
		if s.Name.Local == "gridCol" {
			columns++
		}
		return nil
	})
	return columns, err
}

func (w *word) tellRow(r *tableRow) error {
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

// tableRow reads a row up to its end.
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
			_, err = w.pass(s)
		}
		return err
	})
	return r, err
}

// headRow reads what a row is.
func (w *word) headRow() (head bool, err error) {
	err = w.e.Each(func(s xml.StartElement) error {
		if s.Name.Local == "tblHeader" {
			head = on(s)
		}
		return nil
	})
	return head, err
}

// cell reads a cell; one that spans several columns is followed by empty ones.
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
			case "tcPr", "sdt", "sdtContent":
			default:
				_, err = w.pass(s)
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
