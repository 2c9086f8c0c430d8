package epub

import (
	"encoding/xml"
	"errors"
	"path"
	"slices"
	"strings"

	"parley/workers/internal/parse/markup"
	"parley/workers/internal/parse/pack"
)

// titles maps the parts of a book to their titles in the book's table of contents. Parts without an
// entry have no title. The map is empty if the book has no table of contents.
//
// The table of contents of EPUB 3 takes precedence over that of EPUB 2. Books that support both
// versions contain both.
func (b *book) titles(a *pack.Archive) (map[string]string, error) {
	titles := map[string]string{}
	for _, it := range b.items {
		// In EPUB 3, the table of contents has the property "nav".
		if !slices.Contains(strings.Fields(it.properties), "nav") {
			continue
		}
		content, err := a.Read(it.part)
		if errors.Is(err, pack.ErrNoPart) {
			continue
		}
		if err != nil {
			return nil, err
		}
		links, err := markup.Links(content)
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			enter(titles, resolve(path.Dir(it.part), l.Address), l.Text)
		}
		return titles, nil
	}
	return titles, b.oldTitles(a, titles)
}

// enter records the title of a part, unless the part already has a title.
func enter(titles map[string]string, part, title string) {
	if titles[part] == "" { // if a part has several entries, the first entry contains its title
		titles[part] = title
	}
}

// oldTitles adds the titles in a table of contents of EPUB 2 to the map titles. A missing table of
// contents is not an error.
func (b *book) oldTitles(a *pack.Archive, titles map[string]string) error {
	part := b.items[b.toc].part
	for _, it := range b.items {
		// In some books, the spine does not state which item is the table of contents.
		if part == "" && it.mimeType == "application/x-dtbncx+xml" {
			part = it.part
		}
	}

	e, err := a.XML(part)
	if errors.Is(err, pack.ErrNoPart) {
		return nil
	}
	if err != nil {
		return err
	}

	// In each entry, the text precedes the link.
	title := ""
	_ = e.Each(func(s xml.StartElement) (err error) { // errors are ignored, because titles are optional
		switch s.Name.Local {
		case "text":
			title, err = e.Text()
		case "content":
			enter(titles, resolve(path.Dir(part), pack.Attr(s, "src")), title)
		}
		return err
	})
	return nil
}
