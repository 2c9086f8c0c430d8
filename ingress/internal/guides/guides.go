// Package guides renders the pages of the documentation and searches them. The handlers of /docs
// show the result, with a template of package web.
//
// The pages are Markdown files, which package docs embeds into the program. Read renders all of
// them once and keeps them in memory for the life of the process:
//
//	docs.Pages ─► render ─► Page (HTML, headings)
//	                  └──► sections ─► Search
//
// Links between files become links between pages, and the examples' variables are explained on each
// page that uses them. The result never changes, so it is safe for concurrent use. The page of
// error codes is not a part of the result; the service renders that page from its list of codes.
package guides

import (
	"cmp"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"parley/docs"
)

// Guide is the documentation, with its pages grouped in chapters. A Guide never changes, so it is
// safe for concurrent use.
type Guide struct {
	Chapters []Chapter
	sections []section // sections of all pages, in order
	// pages by path.
	pages map[string]*Page
}

// Chapter is a group of pages about one subject. Navigation shows the chapters in this order.
type Chapter struct {
	Title string
	// At least one page.
	Pages []*Page
}

// Page is a page of the documentation. It is created by render and never changes.
type Page struct {
	Path    string // path after /docs/, such as "webhooks" or "guides/cron"
	Title   string
	Summary template.HTML // first paragraph, without a last sentence that ends with a colon
	// HTML of the page without its title. The template renders the title.
	Body     template.HTML
	Headings []Heading // headings of the second level
	// Parts of the page that a search can find.
	sections []section
}

// Heading is a heading and the anchor of its section. The anchor is the id of the heading's HTML
// element.
type Heading struct{ Text, Anchor string }

// chapters lists the chapters and the paths of their pages. Every page belongs to one chapter.
// Paths are separated by spaces.
var chapters = []struct{ title, paths string }{
	{"Start", "quickstart dashboard cli"},
	{"Agents", "models structured-output attachments tools knowledge sandbox budgets"},
	{"Clients", "clients streams ui-streams openai mcp voice widget guides/langchain guides/librechat guides/open-webui"},
	{"Automations", "guides/cron guides/github-actions guides/kubernetes guides/n8n webhooks guides/github-webhooks guides/stripe-webhooks " +
		"guides/slack guides/http-endpoint notifications traces"},
	{"Operation", "processes deploy settings security operations upgrade telemetry"},
	{"Background", "reliability architecture prove performance dependencies"},
}

// errorsPage is the path of a page of the documentation that is not rendered here, because the
// service has its own page at this path.
const errorsPage = "errors"

// Read returns the documentation. It renders the pages at the first call. The documentation is a
// part of the program, so an error is a defect of the build. Later calls return the same result.
var Read = sync.OnceValues(func() (*Guide, error) { return read(docs.Pages) })

// read renders the pages of a file system. The order of pages and sections is that of chapters. A
// page that is missing or has no title is an error.
func read(files fs.FS) (*Guide, error) {
	g := &Guide{pages: map[string]*Page{}}
	for _, c := range chapters {
		chapter := Chapter{Title: c.title}
		for at := range strings.FieldsSeq(c.paths) {
			source, err := fs.ReadFile(files, at+".md")
			if err != nil {
				return nil, fmt.Errorf("reading a page of the documentation: %w", err)
			}
			page, err := render(at, source)
			if err != nil {
				return nil, fmt.Errorf("rendering the page %s: %w", at, err)
			}
			chapter.Pages = append(chapter.Pages, page)
			g.pages[at] = page
			g.sections = append(g.sections, page.sections...)
		}
		g.Chapters = append(g.Chapters, chapter)
	}
	return g, nil
}

// Result is a section that a search found. Path contains the section's anchor. The other fields are
// plain text.
type Result struct{ Path, Page, Heading, Excerpt string }

// These constants limit a search.
const (
	// MaxQuery is the maximum length of a query. The caller checks the length.
	MaxQuery = 200 // characters
	// Maximum number of words of a query; further words are ignored.
	maxWords = 8
	// Maximum number of results of a search.
	maxResults = 20
	// Maximum length of an excerpt, without the ellipses.
	maxExcerpt = 200 // characters
)

// section is a part of a page under one heading. The text before the first heading is a section
// too.
type section struct {
	page    *Page
	heading Heading // zero for the beginning of the page
	text    string  // text without markup
	lower   string  // text in lower case
}

// Search returns up to 20 sections that contain all words of a query, the best matches first. A
// word of the query matches words of the text that begin with it. Sections whose title or heading
// contains all words of the query come first. Letter case does not matter. The result is nil if the
// query is empty or nothing matches. Search reads the whole documentation, which is short enough to
// need no index.
func (g *Guide) Search(query string) []Result {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}

	// Only the first words are used, because further words would rarely change the result.
	words = words[:min(len(words), maxWords)]

	type hit struct {
		section
		score int
	}
	var hits []hit
	for _, s := range g.sections {
		if score := s.score(words); score > 0 {
			hits = append(hits, hit{s, score})
		}
	}

	// The sort is stable, so equal matches stay in the order of the pages.
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })

	var out []Result
	for _, h := range hits[:min(len(hits), maxResults)] {
		at := h.page.Path
		if h.heading.Anchor != "" {
			at += "#" + h.heading.Anchor
		}
		out = append(out, Result{Path: at, Page: h.page.Title, Heading: h.heading.Text, Excerpt: h.excerpt(words)})
	}
	return out
}

// score returns how well a section matches the words, as a number. A better match has a higher
// number. The result is 0 if the section lacks one of the words. The words are in lower case. A
// word counts if it is in the title, the heading or the text. Bonuses for titles and headings
// exceed anything that the text can contribute.
func (s *section) score(words []string) int {
	title, heading := strings.ToLower(s.page.Title), strings.ToLower(s.heading.Text)
	total, inTitle, inHeading, inEither := 0, 0, 0, 0
	for _, w := range words {
		// Count only a few repetitions of a word, so that a long section does not rank first just
		// because it repeats the word.
		found := min(countStarts(s.lower, w), 5)
		ofTitle, ofHeading := countStarts(title, w) > 0, countStarts(heading, w) > 0
		if ofTitle {
			found += 10
			inTitle++
		}
		if ofHeading {
			found += 15
			inHeading++
		}
		if ofTitle || ofHeading {
			inEither++
		}
		if found == 0 {
			return 0
		}

		total += found
	}

	// A title or heading that contains all words adds more to the score than the text can.
	switch len(words) {
	case inTitle:
		total += 1_000
		if s.heading.Text == "" {
			total += 3_000 // beginning of the page
		}
		if inHeading == len(words) {
			total += 1_000
		}
	case inHeading:
		total += 2_000
	case inEither:
		total += 500
	}
	return total
}

// countStarts returns how many words of a text begin with the argument start. The arguments text
// and start are in lower case. Overlapping occurrences count once.
func countStarts(text, start string) (n int) {
	for at := 0; ; {
		i := strings.Index(text[at:], start)
		if i < 0 {
			return n
		}
		if at += i; at == 0 || !isWordByte(text[at-1]) {
			n++
		}
		at += len(start)
	}
}

// isWordByte reports whether b is part of a word. Bytes of non-ASCII characters count as letters.
// Upper-case letters do not occur, because the caller converts texts to lower case.
func isWordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b >= 0x80
}

// excerpt returns the text around the first occurrence of the query's first word. If the text does
// not contain this word, excerpt returns the beginning of the text. The result has at most
// maxExcerpt characters, begins and ends at a space, and marks omitted text with an ellipsis. words
// must not be empty.
func (s *section) excerpt(words []string) string {
	from := max(strings.Index(s.lower, words[0]), 0)
	if from > len(s.text) { // some letters have fewer or more bytes in lower case than in upper case
		from = 0
	}
	if from < maxExcerpt/2 {
		from = 0
	} else if space := strings.LastIndexByte(s.text[:from-maxExcerpt/3], ' '); space >= 0 {
		from = space + 1
	}

	text := s.text[from:]
	if from > 0 {
		text = "… " + text
	}

	if runes := []rune(text); len(runes) > maxExcerpt {
		short := string(runes[:maxExcerpt])
		text = short[:max(strings.LastIndexByte(short, ' '), 0)] + " …"
	}
	return text
}

// resolve converts the target of a link between files of the repository to the address of a page
// under /docs. It returns false if the service does not show the file. page is the path of the page
// with the link. Links to other sites, anchors and absolute paths are returned unchanged. Files
// outside the documentation cannot be shown.
func resolve(page, link string) (string, bool) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "#") || strings.HasPrefix(link, "/") {
		return link, true
	}
	file, anchor, _ := strings.Cut(link, "#")
	at, isPage := strings.CutSuffix(path.Join(path.Dir(page), file), ".md")
	if !isPage || strings.HasPrefix(at, "..") {
		return "", false
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	return "/docs/" + at + anchor, true
}
