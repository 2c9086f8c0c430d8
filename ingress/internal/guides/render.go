package guides

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// markdown renders the text of pages as HTML. It omits HTML in the text. Raw HTML in a page would
// be dropped silently, so pages contain none. The converter is safe for concurrent use.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// errNoTitle is the error for a page that does not begin with a heading of the first level. read
// adds the path of the page.
var errNoTitle = errors.New("the page does not begin with a title")

// anchors are the ids of a page's headings. They have the form that code hosting sites generate,
// because links in the pages use that form. Each page has its own set.
type anchors map[string]bool

// Generate returns the id for a heading: its text in lower case, with hyphens instead of spaces and
// without punctuation. It implements parser.IDs. A repeated id gets a number, beginning with 1.
func (ids anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	base := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		default:
			return -1
		}
	}, strings.ToLower(strings.TrimSpace(string(value))))
	id := base
	for n := 1; ids[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	ids[id] = true
	return []byte(id)
}

// Put reserves an id. It implements parser.IDs. Ids that the text declares are reserved in this
// way.
func (ids anchors) Put(value []byte) { ids[string(value)] = true }

// render renders a page. at is the path of the page, and source its Markdown. The steps change the
// syntax tree before it is rendered. The error is errNoTitle if the page has no title.
func render(at string, source []byte) (*Page, error) {
	ids := parser.WithContext(parser.NewContext(parser.WithIDs(anchors{})))
	root := markdown.Parser().Parse(text.NewReader(source), ids)
	title, ok := root.FirstChild().(*ast.Heading)
	if !ok || title.Level != 1 {
		return nil, errNoTitle
	}

	page := &Page{Path: at, Title: plain(title, source)}
	if first, ok := title.NextSibling().(*ast.Paragraph); ok {
		page.Summary = summary(first, source)
	}

	// Sections are taken from the tree before explanations and labels are inserted, so that
	// searches do not find the explanations and labels.
	relink(at, root)
	page.divide(root, source)
	explainVariables(root, source)
	labelCells(root, source)

	root.RemoveChild(root, title) // the template renders the title
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, root); err != nil {
		return nil, err //nolint:wrapcheck // read adds the page
	}
	// Tables and code get a scroll area that can be reached with the keyboard, because they may be
	// wide. An empty header cell becomes an ordinary cell.
	rendered := strings.NewReplacer("<table>", `<div class="scroll" tabindex="0"><table>`, "</table>", "</table></div>",
		"<th></th>", "<td></td>",
		"<pre>", `<pre tabindex="0">`).Replace(body.String())
	page.Body = template.HTML(rendered) //nolint:gosec // rendered from this release's own pages, without HTML
	return page, nil
}

// summary returns the text of a page's first paragraph, with its code. If the last sentence ends
// with a colon, it introduces what follows in the page, so summary omits it. Code is in an element
// code, and all text is escaped.
func summary(first *ast.Paragraph, source []byte) template.HTML {
	text := plain(first, source)
	length := len(text)
	if strings.HasSuffix(text, ":") {
		length = strings.LastIndex(text, ". ") + 1 // 0 if there is no other sentence
	}

	var out strings.Builder
	ending := ""
	if length == 0 {
		length, ending = len(text)-1, "."
	}

	// Truncate the spans to the length of the text. The last span may end in its middle.
	for _, s := range spans(first, source) {
		shown := s.text[:min(len(s.text), length)]
		length -= len(shown)
		if s.code && shown != "" {
			shown = "<code>" + template.HTMLEscapeString(shown) + "</code>"
		} else {
			shown = template.HTMLEscapeString(shown)
		}
		out.WriteString(shown)
	}
	return template.HTML(out.String() + ending) //nolint:gosec // escaped
}

// span is a part of a paragraph: code, or other text. Links and emphasis are not distinguished, so
// they become plain text.
type span struct {
	text string
	code bool
}

// spans returns the parts of a paragraph. Together, their texts are the text that plain returns.
// Nested elements are flattened. Code inside a link is code.
func spans(paragraph *ast.Paragraph, source []byte) (found []span) {
	_ = ast.Walk(paragraph, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch {
		case !entering || n == paragraph:
			return ast.WalkContinue, nil
		case n.Kind() == ast.KindCodeSpan:
			found = append(found, span{plain(n, source), true})
			return ast.WalkSkipChildren, nil
		case n.Kind() == ast.KindText || n.Kind() == ast.KindString:
			found = append(found, span{text: inline(n, source)})
		}
		return ast.WalkContinue, nil
	})
	return found
}

// relink changes links between files to links between pages of the service. Links to other files
// become plain text. relink changes the tree. The text of a removed link stays.
func relink(at string, root ast.Node) {
	var links []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})

	// Change the links after the walk, because a walk must not remove nodes that it visits.
	for _, link := range links {
		if to, ok := resolve(at, string(link.Destination)); ok {
			link.Destination = []byte(to)
			continue
		}
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			link.Parent().InsertBefore(link.Parent(), link, child)
		}
		link.Parent().RemoveChild(link.Parent(), link)
	}
}

// labelCells gives each cell of a table with three or more columns the header of its column, which
// narrow screens show in front of the cell's text. The first cell of a row has no label. Tables
// with two columns stay readable on narrow screens, so they get no labels. labelCells changes the
// tree.
func labelCells(root ast.Node, source []byte) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		table, ok := n.(*east.Table)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		var labels []string
		for cell := table.FirstChild().FirstChild(); cell != nil; cell = cell.NextSibling() {
			labels = append(labels, plain(cell, source))
		}
		if len(labels) < 3 {
			return ast.WalkSkipChildren, nil
		}

		// Rows follow the header row.
		for row := table.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
			column := 0
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				if column > 0 && labels[column] != "" && cell.HasChildren() {
					cell.SetAttributeString("data-label", []byte(labels[column]))
				}
				column++
			}
		}
		return ast.WalkSkipChildren, nil
	})
}

// divide splits a page into sections for the search, and collects the page's headings of the second
// level. Each heading below the title begins a section, whatever its level. Code belongs to no
// section's text.
func (p *Page) divide(root ast.Node, source []byte) {
	current := section{page: p}
	var words strings.Builder
	flush := func() {
		// Line breaks become spaces, because search results show excerpts on one line.
		current.text = strings.Join(strings.Fields(words.String()), " ")
		current.lower = strings.ToLower(current.text)
		p.sections = append(p.sections, current)
		words.Reset()
	}

	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			words.WriteString(plain(n, source))
			words.WriteByte('\n')
			continue
		}
		// The first heading is the page's title and begins no section.
		if heading.Level == 1 {
			continue
		}

		flush()
		current = section{page: p, heading: Heading{plain(heading, source), anchor(heading)}}
		if heading.Level == 2 {
			p.Headings = append(p.Headings, current.heading)
		}
	}

	// The last section has no heading after it.
	flush()
}

// anchor returns the id of a heading. It is "" if the parser has set no id.
func anchor(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	raw, _ := id.([]byte)
	return string(raw)
}

// plain returns the text of a node without markup. Blocks of code are omitted, and blocks are
// separated by a space.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text, *ast.String:
			if entering {
				out.WriteString(inline(n, source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			return ast.WalkSkipChildren, nil // the search ignores code, because an excerpt of code would not help readers
		default:
			if !entering && n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String())
}

// inline returns the text of a node without children. A line break becomes a space. The result is
// "" for a node of another type.
func inline(n ast.Node, source []byte) string {
	switch n := n.(type) {
	case *ast.Text:
		if n.SoftLineBreak() || n.HardLineBreak() {
			return string(n.Value(source)) + " "
		}
		return string(n.Value(source))
	case *ast.String:
		return string(n.Value)
	default:
		return ""
	}
}
