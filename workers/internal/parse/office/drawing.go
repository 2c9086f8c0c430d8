package office

import (
	"encoding/xml"
	"strconv"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// maxTitle is the maximum number of bytes of a title to which a further paragraph is added. The
// limit is needed because each addition copies the title.
const maxTitle = 10_000

// drawing is the state of reading the shapes of a slide, of its notes, or of a diagram. All three
// consist of shapes with paragraphs. A drawing is used for one part.
type drawing struct {
	e *pack.Elements
	// chosen selects one of several alternative forms of a shape.
	chosen choices
	notes  bool // if true, only the text of speaker notes is read
	// diagram is true for the data of a diagram, whose texts become list items.
	diagram bool
	// title is the text of the title placeholders, joined with spaces.
	title string
	// hidden is true if the slide is not shown in a presentation.
	hidden bool
	// blocks contains the text except for the title, in the order of the file.
	blocks []document.Block
	holder string // type of the shape's placeholder: title, body, …; "" for none
	rows   bool   // true if the first row of the current table is a header
	row    int    // number of the current row in the table
}

// read reads all shapes of the part. Afterwards title, hidden and blocks contain the result.
func (d *drawing) read() error {
	return d.e.Each(func(s xml.StartElement) error {
		if d.chosen.skip(s.Name.Local, d.e.Depth()) {
			return d.e.Skip()
		}
		return d.element(s)
	})
}

// element processes the start of an element. A placeholder element precedes the text of its shape,
// so holder is known when the paragraphs are read.
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

// paragraph reads a paragraph. In a title placeholder, the text becomes the slide's title. In a
// body placeholder, the paragraph is a list item unless it has no bullet.
//
// Dates, headers, footers and slide numbers are ignored, because they repeat on each slide. If
// d.notes is true, only the placeholder with the speaker notes is read.
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

// words reads the text of a paragraph. The result bullet is positive if the paragraph has a bullet,
// negative if it must not have a bullet, and 0 if neither is specified. Fields with the slide
// number or the date are omitted.
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

// tableRow reads a row of a table and appends it to the blocks. The paragraphs of a cell are joined
// with newlines. A row with more than maxSpan cells fails with the code too_large.
func (d *drawing) tableRow() error {
	var cells [][]string // paragraphs of each cell
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
				Message: "A table in the document has more than the maximum of " + strconv.Itoa(maxSpan) + " columns.",
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
