package epub

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/markup"
	"parley/workers/internal/parse/pack"
)

// item is a file in a book, as listed in the manifest. part is its name in the archive, or "" if
// the manifest refers to a file outside of the book. properties is a list separated by spaces.
type item struct{ part, mimeType, properties string }

// book contains the information from a book's package document. The function open fills it.
// Afterwards, only the notes in info may change.
type book struct {
	info document.Info
	// items contains the files of the manifest by their ids.
	items map[string]item
	spine []string // ids of items, in reading order
	toc   string   // id of the table of contents in the format of EPUB 2
}

// EPUB reads an EPUB book. Pages that are missing in the archive are skipped, and a note states
// their number. A book without a reading order fails with the code damaged, and a copy-protected
// book with the code password_protected.
//
// EPUB checks ctx before each page.
func EPUB(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	a, err := pack.Open(in.Content)
	if err != nil {
		return document.Info{}, err
	}
	if err := checkEncryption(a); err != nil {
		return document.Info{}, err
	}
	b, err := open(a)
	if err != nil {
		return document.Info{}, err
	}

	// Read the titles from the table of contents, because many pages do not contain their own
	// titles.
	titles, err := b.titles(a)
	if err != nil {
		return b.info, err
	}

	if err := out.Pages(len(b.spine)); err != nil {
		return b.info, err
	}

	missing := 0
	for i, id := range b.spine {
		if err := ctx.Err(); err != nil {
			return b.info, err
		}
		if err := out.Page(i + 1); err != nil {
			return b.info, err
		}
		it := b.items[id]
		content, err := a.Read(it.part)
		// Skip a missing part, because the rest of the book is still useful.
		if errors.Is(err, pack.ErrNoPart) {
			missing++
			continue
		}
		if err != nil {
			return b.info, err
		}
		if !isTextPage(it) {
			continue
		}
		if err := markup.BookPage(content, titles[it.part], out); err != nil {
			return b.info, err
		}
	}
	if missing > 0 {
		b.info.Notes = append(b.info.Notes, fmt.Sprintf("%d parts of the book are missing in the file.", missing))
	}
	return b.info, nil
}

// isTextPage reports whether an item is a page of text. A table of contents is not read as a page,
// because it repeats the headings of the chapters.
func isTextPage(it item) bool {
	for p := range strings.FieldsSeq(it.properties) {
		if p == "nav" {
			return false
		}
	}
	return strings.Contains(it.mimeType, "html") || it.mimeType == "" || strings.HasSuffix(it.mimeType, "/xml")
}

// checkEncryption fails if a book's text is encrypted. It accepts encrypted fonts, which are
// common.
func checkEncryption(a *pack.Archive) error {
	locked := &document.Failure{
		Code: document.Encrypted, Message: "The book is copy-protected and cannot be read.",
	}

	// Most books do not contain this file.
	e, err := a.XML("META-INF/encryption.xml")
	if errors.Is(err, pack.ErrNoPart) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.Each(func(s xml.StartElement) error {
		if s.Name.Local != "CipherReference" {
			return nil
		}
		switch strings.ToLower(path.Ext(pack.Attr(s, "URI"))) {
		case ".xhtml", ".html", ".htm", ".xml", ".opf", ".ncx", "":
			return locked
		}
		return nil
	})
}

// open reads the package document. It fails with the code damaged if the document is missing or its
// spine has no items.
func open(a *pack.Archive) (*book, error) {
	root, err := rootFile(a)
	if err != nil {
		return nil, err
	}

	e, err := a.XML(root)
	if errors.Is(err, pack.ErrNoPart) {
		return nil, incomplete()
	}
	if err != nil {
		return nil, err
	}

	// The manifest precedes the spine in the package document, so the ids in the spine can be
	// checked while the document is read.
	b := &book{items: map[string]item{}}
	err = e.Each(func(s xml.StartElement) error { return b.element(e, s, path.Dir(root)) })
	if err != nil {
		return nil, err
	}
	if len(b.spine) == 0 {
		return nil, incomplete()
	}
	return b, nil
}

// element processes an element of the package document. dir is the folder of the package document,
// to which the links in the manifest are relative.
func (b *book) element(e *pack.Elements, s xml.StartElement, dir string) error {
	switch s.Name.Local {
	case "title", "language":
		text, err := e.Text()
		if err != nil {
			return err
		}
		// A book may have several titles, of which the first is the main title.
		if s.Name.Local == "title" && b.info.Title == "" {
			b.info.Title = text
		} else if s.Name.Local == "language" && b.info.Language == "" {
			b.info.Language = text
		}
	case "item":
		b.items[pack.Attr(s, "id")] = item{
			part: resolve(dir, pack.Attr(s, "href")), mimeType: pack.Attr(s, "media-type"), properties: pack.Attr(s, "properties"),
		}
	case "spine":
		b.toc = pack.Attr(s, "toc")
	case "itemref":
		// An id in the spine without an item is ignored, because the page would have no content.
		if id := pack.Attr(s, "idref"); b.items[id].part != "" {
			b.spine = append(b.spine, id)
		}
	}
	return nil
}

// resolve returns the part of a book to which a link refers. dir is the folder of the part that
// contains the link. resolve returns "" for a link that leads outside of the book.
func resolve(dir, href string) string {
	href, _, _ = strings.Cut(href, "#")
	if plain, err := url.PathUnescape(href); err == nil {
		href = plain
	}

	// A link with a colon is a complete URL, which leads outside of the book.
	if href == "" || strings.Contains(href, ":") {
		return ""
	}
	return strings.TrimPrefix(path.Join("/", dir, href), "/")
}

// rootFile returns the path of the package document in the book's archive. It fails with the code
// damaged if the container file is missing or names no package document.
func rootFile(a *pack.Archive) (string, error) {
	e, err := a.XML("META-INF/container.xml")
	if errors.Is(err, pack.ErrNoPart) {
		return "", incomplete()
	}
	if err != nil {
		return "", err
	}

	root, found := "", false
	err = e.Each(func(s xml.StartElement) error {
		// A container may list several versions of the book, of which the first is the default.
		if s.Name.Local == "rootfile" && !found {
			root, found = resolve("", pack.Attr(s, "full-path")), true
		}
		return nil
	})

	// A path that was found before an error is sufficient, because the rest of the file is not
	// needed.
	switch {
	case found:
		return root, nil
	case err != nil:
		return "", err
	}
	return "", incomplete()
}

// incomplete returns the failure for a book that has no reading order.
func incomplete() error {
	return &document.Failure{Code: document.Damaged, Message: "The book is damaged: its reading order (spine) is missing."}
}
