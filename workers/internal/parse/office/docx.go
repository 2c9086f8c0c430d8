package office

import (
	"bytes"
	"context"
	"encoding/xml"
	"slices"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// word is the state of reading a Word document. It belongs to one call of DOCX and is not safe for
// concurrent use.
//
// The methods share the stream of tokens in the field e. A method is called directly after the
// start of the element that it reads. It consumes the tokens up to the end of that element.
type word struct {
	ctx context.Context //nolint:containedctx // used only during the call to DOCX
	// e is the stream of the part that is being read: first the notes, then the main text.
	e      *pack.Elements
	out    *parse.Writer
	styles styles
	chosen choices
	// notes are read before the main text, because a note follows the paragraph that refers to it.
	notes   map[string][]string // paragraphs of footnotes and endnotes, by kind and id
	holding int                 // while positive, blocks are stored in held instead of being written
	held    []document.Block
	due     []string                    // ids of notes whose marks were read since the last paragraph was written
	page    int                         // current page, or 0 if the document has no page breaks
	breaks  func(xml.StartElement) bool // reports whether an element is a page break
	row     *tableRow                   // innermost table row that is being read
	deleted bool
}

// DOCX reads a Word document. The blocks appear in the order of the main text. Text boxes and notes
// follow the paragraph that contains them or refers to them.
//
// A document has pages only if it contains page breaks; see findPageBreaks. A part that is
// referenced but missing is ignored, except for the main part. DOCX checks ctx at page breaks.
func DOCX(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	a, err := pack.Open(in.Content)
	if err != nil {
		return document.Info{}, err
	}
	part, err := mainPart(a, "word/document.xml")
	if err != nil {
		return document.Info{}, err
	}
	info, err := properties(a)
	if err != nil {
		return info, err
	}
	rels, err := relations(a, part)
	if err != nil {
		return info, err
	}

	w := &word{ctx: ctx, out: out, chosen: choices{}, notes: map[string][]string{}}
	if w.styles, err = readStyles(a, related(rels, "styles")); err != nil {
		return info, err
	}

	// The notes must be complete before the body is read, because body writes them.
	for _, kind := range []string{"footnote", "endnote"} {
		if err := w.readNotes(a, related(rels, kind+"s"), kind); err != nil {
			return info, err
		}
	}

	content, err := a.Read(part)
	if err != nil {
		return info, err
	}
	if err := w.body(content); err != nil {
		return info, err
	}

	info.Notes = w.leftOut(rels)
	return info, nil
}

// leftOut returns notes about content that was not read, such as comments. rels contains the
// relationships of the document's main part.
func (w *word) leftOut(rels map[string]relation) []string {
	var notes []string
	if related(rels, "header") != "" || related(rels, "footer") != "" {
		notes = append(notes, "Page headers and footers were omitted.")
	}
	if related(rels, "comments") != "" {
		notes = append(notes, "Comments were omitted.")
	}
	if w.deleted {
		notes = append(notes, "Text marked as deleted was omitted.")
	}
	if related(rels, "aFChunk") != "" {
		notes = append(notes, "An embedded document was omitted.")
	}
	return notes
}

// findPageBreaks determines which elements are page breaks. They are the breaks that Word stored
// when it rendered the document or, if there are none, the explicit page breaks.
//
// The two kinds are never combined, because Word stores a rendered break at each explicit break,
// too. Without breaks of either kind, w.page remains 0 and the document has no pages.
func (w *word) findPageBreaks(content []byte) {
	switch {
	case bytes.Contains(content, []byte("lastRenderedPageBreak")):
		w.page = 1
		w.breaks = func(s xml.StartElement) bool { return s.Name.Local == "lastRenderedPageBreak" }
	case bytes.Contains(content, []byte(`type="page"`)) || bytes.Contains(content, []byte("pageBreakBefore")):
		w.page = 1
		w.breaks = func(s xml.StartElement) bool {
			return s.Name.Local == "br" && pack.Attr(s, "type") == "page" || s.Name.Local == "pageBreakBefore" && on(s)
		}
	default:
		w.breaks = func(xml.StartElement) bool { return false }
	}
}

// body reads the main text from content, and writes it. Notes without a following paragraph are
// written at the end.
func (w *word) body(content []byte) error {
	w.findPageBreaks(content)
	if w.page > 0 {
		if err := w.out.Page(1); err != nil {
			return err
		}
	}

	w.e = pack.NewElements(content)
	err := w.e.Each(func(s xml.StartElement) error {
		if s.Name.Local != "body" {
			return nil
		}
		return w.blocks()
	})
	if err != nil {
		return err
	}
	return w.flushNotes()
}

// on returns the value of a property that is either on or off. A property without a value is on.
func on(s xml.StartElement) bool {
	val := pack.Attr(s, "val")
	return val != "0" && val != "false" && val != "off"
}

// readNotes reads the footnotes or endnotes of a document into w.notes. The argument part is the
// name of the part with the notes, or "" if the document has no notes. The argument kind is
// "footnote" or "endnote". Each note is written later, after the paragraph that refers to it.
func (w *word) readNotes(a *pack.Archive, part, kind string) error {
	if part == "" {
		return nil
	}
	e, err := a.XML(part)
	if err != nil {
		return ignoreMissing(err)
	}

	// Breaks in notes do not count, because a note is printed on the page of its mark.
	w.e, w.breaks = e, func(xml.StartElement) bool { return false }
	return e.Each(func(s xml.StartElement) error {
		if s.Name.Local != kind {
			return nil
		}
		texts, err := w.hold(w.blocks)
		// The separators are lines that Word draws between the text and the notes.
		if of := pack.Attr(s, "type"); of != "separator" && of != "continuationSeparator" && of != "continuationNotice" {
			w.notes[kind+pack.Attr(s, "id")] = texts
		}
		return err
	})
}

// hold calls the function read, and returns the texts of the blocks instead of writing the blocks.
// Calls may be nested: cells contain tables, which contain cells.
func (w *word) hold(read func() error) ([]string, error) {
	before := w.held
	w.held = nil
	w.holding++
	err := read()
	w.holding--
	texts := make([]string, len(w.held))
	for i, b := range w.held {
		texts[i] = b.Text
	}
	w.held = before
	return texts, err
}

// ignoredElements lists elements whose content is not part of the document's text.
var ignoredElements = map[string]bool{
	"del": true, "moveFrom": true, "sdtPr": true, "sdtEndPr": true, "sectPr": true, "tblPr": true, "tblGrid": true, "trPr": true,
	"tcPr": true, "rPr": true, "instrText": true, "delText": true, "delInstrText": true, "rt": true, "pPrChange": true, "rubyPr": true,
	"customXmlPr": true, "smartTagPr": true, "tblPrEx": true, "fldData": true,
}

// skipIgnored skips an element whose content is not part of the text, and reports whether it did
// so. It sets w.deleted if it skips deleted text, so that a note mentions this.
func (w *word) skipIgnored(s xml.StartElement) (bool, error) {
	name := s.Name.Local
	if !ignoredElements[name] && !w.chosen.skip(name, w.e.Depth()) {
		return false, nil
	}
	w.deleted = w.deleted || name == "del" || name == "moveFrom"
	return true, w.e.Skip()
}

// each calls f for each child of the current element, except for ignored elements.
func (w *word) each(f func(s xml.StartElement) error) error {
	return w.e.Each(func(s xml.StartElement) error {
		if skipped, err := w.skipIgnored(s); skipped || err != nil {
			return err
		}
		return f(s)
	})
}

// blocks reads the paragraphs and tables of the current element. The method each descends into
// wrappers such as content controls, so the paragraphs in wrappers are also read.
func (w *word) blocks() error {
	return w.each(func(s xml.StartElement) error {
		switch s.Name.Local {
		case "p":
			return w.paragraph()
		case "tbl":
			return w.table()
		}
		return nil
	})
}

// put writes a block. While the method hold is running, put stores the block instead. In both
// cases, put ignores a block that consists only of white space.
func (w *word) put(b document.Block) error {
	if strings.TrimSpace(b.Text) == "" {
		return nil
	}
	if w.holding > 0 {
		w.held = append(w.held, b)
		return nil
	}
	return w.out.Put(b)
}

// flushNotes writes the notes whose marks were read since the last call, each paragraph as a block.
// While blocks are held, it does nothing: the notes follow the outermost table or paragraph.
func (w *word) flushNotes() error {
	if w.holding > 0 {
		return nil
	}
	due := w.due
	w.due = nil
	for _, id := range due {
		texts := w.notes[id]
		delete(w.notes, id) // a note is written only once, even if several marks refer to it
		for _, t := range slices.Clone(texts) {
			if err := w.out.Paragraph(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextPage begins the next page. Inside of a table, it records the page break in the row that is
// being read. It ignores breaks in documents without pages. It also ignores breaks in text that is
// held for another purpose than a table row.
func (w *word) nextPage() error {
	switch {
	case w.page == 0:
		return nil
	case w.row != nil:
		w.row.pageBreak(w)
		return nil
	case w.holding > 0:
		return nil
	}

	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.page++
	return w.out.Page(w.page)
}
