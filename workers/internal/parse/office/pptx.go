package office

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/pack"
)

// PPTX reads a PowerPoint presentation. Each slide is a page, which begins with the slide's title
// as a heading of level 1 and ends with the speaker notes.
//
// If the presentation has no title, the title of the first slide is used. Hidden slides are read
// and mentioned in a note. PPTX checks ctx before each slide.
func PPTX(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	a, err := pack.Open(in.Content)
	if err != nil {
		return document.Info{}, err
	}
	part, err := mainPart(a, "ppt/presentation.xml")
	if err != nil {
		return document.Info{}, err
	}
	info, err := properties(a)
	if err != nil {
		return info, err
	}
	if strings.EqualFold(info.Title, "PowerPoint Presentation") { // the default title of PowerPoint
		info.Title = ""
	}

	slides, err := slidesFor(a, part)
	if err != nil {
		return info, err
	}

	// The number of slides is reported first, so that a presentation with too many slides fails
	// before any slide is read.
	if err := out.Pages(len(slides)); err != nil {
		return info, err
	}

	for i, part := range slides {
		if err := ctx.Err(); err != nil {
			return info, err
		}
		s, err := readSlide(a, part)
		if err != nil {
			return info, err
		}
		if s.hidden {
			info.Notes = append(info.Notes, fmt.Sprintf("Slide %d is hidden in the presentation; its text was read.", i+1))
		}
		if info.Title == "" && i == 0 {
			info.Title = s.title
		}
		if err := s.write(out, i+1); err != nil {
			return info, err
		}
	}
	// A list of many hidden slides would not help, so a single note gives their number.
	if len(info.Notes) > 5 {
		info.Notes = []string{fmt.Sprintf("%d slides are hidden in the presentation; their text was read.", len(info.Notes))}
	}
	return info, nil
}

// slidesFor returns the parts that contain the slides, in the order of the presentation. The
// argument part is the name of the main part. Slides whose part is missing are omitted.
func slidesFor(a *pack.Archive, part string) ([]string, error) {
	rels, err := relations(a, part)
	if err != nil {
		return nil, err
	}

	e, err := a.XML(part)
	if err != nil {
		return nil, err
	}

	var slides []string
	err = e.Each(func(s xml.StartElement) error {
		if s.Name.Local != "sldId" {
			return nil
		}
		// The element has an id of its own and the id of a relationship. Only the attribute with
		// the relationship's id has a namespace.
		for _, attr := range s.Attr {
			if r, ok := rels[attr.Value]; ok && attr.Name.Local == "id" && attr.Name.Space != "" && a.Has(r.part) {
				slides = append(slides, r.part)
			}
		}
		return nil
	})
	return slides, err
}

// slide is the text of a slide, before it is written. It is collected first, because the title may
// follow other shapes in the file.
type slide struct {
	title  string
	blocks []document.Block
	notes  []document.Block
	hidden bool
}

// write writes a slide as the given page: its title, its text and its notes.
func (s *slide) write(out *parse.Writer, page int) error {
	if err := out.Page(page); err != nil {
		return err
	}
	if err := out.Heading(1, s.title); err != nil {
		return err
	}
	for _, b := range slices.Concat(s.blocks, s.notes) {
		if err := out.Put(b); err != nil {
			return err
		}
	}
	return nil
}

// readSlide reads a slide, including its notes and diagrams. Diagrams follow the other text of the
// slide.
func readSlide(a *pack.Archive, part string) (*slide, error) {
	s := &slide{}
	e, err := a.XML(part)
	if err != nil {
		return nil, err
	}
	d := &drawing{e: e, chosen: choices{}}
	if err := d.read(); err != nil {
		return nil, err
	}
	s.title, s.blocks, s.hidden = d.title, d.blocks, d.hidden

	rels, err := relations(a, part)
	if err != nil {
		return nil, err
	}
	// The ids are sorted, so that reading a file twice gives the same text.
	for _, id := range sortedIDs(rels) {
		r := rels[id]
		if r.kind != "notesSlide" && r.kind != "diagramData" || !a.Has(r.part) {
			continue
		}
		if e, err = a.XML(r.part); err != nil {
			return nil, err
		}
		other := &drawing{e: e, chosen: choices{}, notes: r.kind == "notesSlide", diagram: r.kind == "diagramData"}
		if err := other.read(); err != nil {
			return nil, err
		}
		if other.notes {
			s.notes = append(s.notes, other.blocks...)
		} else {
			s.blocks = append(s.blocks, other.blocks...)
		}
	}
	return s, nil
}

// sortedIDs returns the ids of relationships in lexical order.
func sortedIDs(rels map[string]relation) []string {
	ids := make([]string, 0, len(rels))
	for id := range rels {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
