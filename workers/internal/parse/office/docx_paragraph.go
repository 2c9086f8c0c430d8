package office

import (
	"encoding/xml"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pack"
)

// wordParagraph is a paragraph that is being read.
type wordParagraph struct {
	text  strings.Builder
	style string
	level int // outline level that is set in the paragraph itself, or -1 if none is set
	list  int // 1: a list item; -1: not a list item; 0: not specified
	boxes []document.Block
}

// paragraph reads and writes a paragraph, followed by its text boxes and footnotes.
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

// inside processes an element that is inside of a paragraph.
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
// break.
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

// box reads a text box.
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

// writeParagraph writes a paragraph as a heading, a list item or text.
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

// paragraphProperties reads the properties of a paragraph.
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
