package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// maxTitle is the length in bytes from which a title takes no further paragraph: each one copies those before it.
const maxTitle = 10_000

// drawing reads the shapes of a slide, of its notes, or of a diagram.
type drawing struct {
	e       *pack.Elements
	chosen  choices
	notes   bool // only the text of the notes is read
	diagram bool
	title   string
	hidden  bool
	blocks  []document.Block
	holder  string // what the shape holds: title, body, …; "" when it is no placeholder
	rows    bool   // the table's first row names its columns
	row     int    // of the table
}

func (d *drawing) read() error {
	return d.e.Each(func(s xml.StartElement) error {
		if d.chosen.skip(s.Name.Local, d.e.Depth()) {
			return d.e.Skip()
		}
		return d.element(s)
	})
}

func (d *drawing) element(s xml.StartElement) error {
	switch s.Name.Local {
	case "sld":
		d.hidden = pack.Attr(s, "show") == "0" || pack.Attr(s, "show") == "false"
	case "sp", "graphicFrame", "pic", "cxnSp":
		d.holder = ""
	case "ph":
		if d.holder = pack.Attr(s, "type"); d.holder == "" {
			d.holder = "body"
		}
	case "tbl":
		d.row, d.rows = 0, false
	case "tblPr":
		d.rows = pack.Attr(s, "firstRow") == "1" || pack.Attr(s, "firstRow") == "true"
	case "tr":
		return d.tableRow()
	case "p":
		return d.paragraph()
	}
	return nil
}

// paragraph tells a paragraph: what a title holds becomes the title, what a body holds are items unless it says otherwise.
func (d *drawing) paragraph() error {
	text, bullet, err := d.words()
	if err != nil || strings.TrimSpace(text) == "" {
		return err
	}
	kind := document.Paragraph
	switch d.holder {
	case "title", "ctrTitle":
		if !d.notes && len(d.title) < maxTitle {
			d.title = strings.TrimSpace(d.title + " " + text)
		}
		return nil
	case "dt", "ftr", "hdr", "sldNum", "sldImg":
		return nil
	case "body", "obj":
		if bullet >= 0 && !d.notes {
			kind = document.Item
		}
	default:
		if d.notes {
			return nil
		}
		if bullet > 0 || d.diagram {
			kind = document.Item
		}
	}
	d.blocks = append(d.blocks, document.Block{Kind: kind, Text: text})
	return nil
}

// words reads a paragraph up to its end; bullet is above 0 when it says that it has one, below when it says that it has none.
func (d *drawing) words() (text string, bullet int, err error) {
	var b strings.Builder
	reading := false
	for depth := d.e.Depth(); d.e.Depth() >= depth; {
		t, err := d.e.Next()
		if err != nil {
			return "", 0, err
		}
		switch t := t.(type) {
		case xml.CharData:
			if reading {
				b.Write(t)
			}
		case xml.EndElement:
			reading = false
		case xml.StartElement:
			reading = t.Name.Local == "t"
			switch t.Name.Local {
			case "br":
				b.WriteByte('\n')
			case "tab":
				b.WriteByte('\t')
			case "buChar", "buAutoNum", "buBlip":
				bullet = 1
			case "buNone":
				bullet = -1
			case "fld":
				if kind := pack.Attr(t, "type"); kind == "slidenum" || strings.HasPrefix(kind, "datetime") {
					if err := d.e.Skip(); err != nil {
						return "", 0, err
					}
				}
			}
		}
	}
	return b.String(), bullet, nil
}

// tableRow tells a row up to its end.
func (d *drawing) tableRow() error {
	var cells [][]string // by paragraph
	err := d.e.Each(func(s xml.StartElement) error {
		switch s.Name.Local {
		case "tc":
			cells = append(cells, nil)
		case "p":
			text, _, err := d.words()
			if err != nil {
				return err
			}
			if n := len(cells) - 1; n >= 0 {
				cells[n] = append(cells[n], text)
			}
		}
		if len(cells) > maxSpan {
			return &document.Failure{
				Code:    document.TooLarge,
				Message: "A table of the document has more than " + strconv.Itoa(maxSpan) + " columns, the maximum.",
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	texts := make([]string, len(cells))
	for i, paragraphs := range cells {
		texts[i] = strings.Join(paragraphs, "\n")
	}
	d.row++
	d.blocks = append(d.blocks, document.Block{Kind: document.Row, Head: d.row == 1 && d.rows, Text: parse.Cells(texts)})
	return nil
}
