package office

import (
	"encoding/xml"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pack"
)

// wordParagraph is a paragraph that is being read. The field text is the paragraph's text so far.
// It contains a newline for each line break and a tab for each tab stop.
type wordParagraph struct {
	text strings.Builder
	// style is the id of the paragraph's style, or "" for the default style.
	style string
	level int // heading level that is set in the paragraph itself; 0 for ordinary text; -1 if not set
	list  int // 1: a list item; -1: not a list item; 0: not specified
	// boxes contains the blocks of the text boxes that are anchored in the paragraph.
	boxes []document.Block
}

// paragraph reads and writes a paragraph, followed by its text boxes and notes. It reads tokens
// instead of calling the method each, because text occurs at several depths: in runs, links and
// fields.
func (w *word) paragraph() error {
	p := &wordParagraph{level: -1}
	reading := false // true while the current element contains text
	for depth := w.e.Depth(); w.e.Depth() >= depth; {
		t, err := w.e.Next()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.CharData:
			if reading {
				// The row is marked because a later page break in it belongs after the row.
				p.text.Write(t)
				w.row.touch()
			}
		case xml.StartElement:
			reading = t.Name.Local == "t"
			if err := w.inside(p, t); err != nil {
				return err
			}
		case xml.EndElement:
			reading = false
		}
	}

	if err := w.writeParagraph(p); err != nil {
		return err
	}
	for _, b := range p.boxes {
		if err := w.put(b); err != nil {
			return err
		}
	}
	return w.flushNotes()
}

// inside processes an element that is inside of a paragraph. It consumes the elements that have a
// meaning of their own; the method paragraph reads the content of all other elements.
func (w *word) inside(p *wordParagraph, s xml.StartElement) error {
	if skipped, err := w.skipIgnored(s); skipped || err != nil {
		return err
	}
	if w.breaks(s) {
		return w.splitPage(p)
	}

	switch s.Name.Local {
	case "pPr":
		return w.paragraphProperties(p)
	case "tab", "ptab":
		p.text.WriteByte('\t')
	case "br", "cr":
		p.text.WriteByte('\n')
	case "noBreakHyphen":
		p.text.WriteByte('-')
	case "footnoteReference", "endnoteReference":
		w.due = append(w.due, strings.TrimSuffix(s.Name.Local, "Reference")+pack.Attr(s, "id"))
	case "txbxContent":
		return w.box(p)
	case "p", "tbl": // only damaged files contain these elements in a paragraph
		p.text.WriteByte('\n')
	}
	return nil
}

// splitPage handles a page break in the middle of a paragraph. It first writes the text before the
// break, with its notes, so that both are on the earlier page. Inside of held text, the paragraph
// is not divided.
func (w *word) splitPage(p *wordParagraph) error {
	if w.holding == 0 && strings.TrimSpace(p.text.String()) != "" {
		if err := w.writeParagraph(p); err != nil {
			return err
		}
		p.text.Reset()
		if err := w.flushNotes(); err != nil {
			return err
		}
	}
	return w.nextPage()
}

// box reads a text box into p.boxes. The box is written after the paragraph, because its text would
// otherwise interrupt a sentence. A box may contain tables, so the row that is being read is
// restored afterwards.
func (w *word) box(p *wordParagraph) error {
	before := w.held
	w.held = nil
	w.holding++
	row := w.row
	err := w.blocks()
	w.row = row
	w.holding--
	p.boxes = append(p.boxes, w.held...)
	w.held = before
	return err
}

// writeParagraph writes a paragraph as a heading, a list item or text. A level or list setting of
// the paragraph itself takes precedence over the settings of its style.
func (w *word) writeParagraph(p *wordParagraph) error {
	b := document.Block{Kind: document.Paragraph, Text: p.text.String()}
	level := p.level
	if level < 0 {
		level = w.styles.level(p.style)
	}
	switch {
	case level > 0:
		b.Kind, b.Level = document.Heading, level
	case p.list > 0, p.list == 0 && w.styles.listed(p.style):
		b.Kind = document.Item
	}
	return w.put(b)
}

// paragraphProperties reads the properties of a paragraph: style, outline level, membership in a
// list, and a page break before the paragraph. Numbering 0 removes a paragraph from the list of its
// style.
func (w *word) paragraphProperties(p *wordParagraph) error {
	return w.each(func(s xml.StartElement) error {
		switch s.Name.Local {
		case "pStyle":
			p.style = pack.Attr(s, "val")
		case "outlineLvl":
			p.level = outline(pack.Attr(s, "val"))
		case "numId":
			if p.list = 1; pack.Attr(s, "val") == "0" {
				p.list = -1
			}
		case "pageBreakBefore":
			if w.breaks(s) {
				return w.nextPage()
			}
		}
		return nil
	})
}
