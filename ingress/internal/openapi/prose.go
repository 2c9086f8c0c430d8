package openapi

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Prose is a Markdown text in parsed form: headings, paragraphs, lists and tables. Pages render it
// with templates, so that the text is escaped.
type Prose []Block

// Block is a block of a Prose. Exactly one of its fields is set. Code blocks are paragraphs with a
// single Span of code.
type Block struct {
	// A heading of any level.
	Heading   *Heading
	Paragraph []Span
	// Entries of a list, ordered or not.
	List  [][]Span
	Table [][][]Span // rows of cells; the first row is the header
}

// Heading contains the text of a heading and its anchor. The anchor is unique only if the heading
// is unique.
type Heading struct{ Text, Anchor string }

// Span is a piece of text. It is code, strong text, a link if Link is set, or plain text. At most
// one of Code, Strong and Link is set.
type Span struct {
	Text, Link   string
	Code, Strong bool
}

// The inline parsers do not recognize HTML, so that a placeholder such as <id> remains text.
// Extensions other than tables are not needed.
var (
	inlineParsers = parser.WithInlineParsers(
		util.Prioritized(parser.NewCodeSpanParser(), 1),
		util.Prioritized(parser.NewLinkParser(), 2),
		util.Prioritized(parser.NewEmphasisParser(), 3),
	)
	proseParser = goldmark.New(
		goldmark.WithParser(parser.NewParser(inlineParsers, parser.WithBlockParsers(parser.DefaultBlockParsers()...))),
		goldmark.WithExtensions(extension.Table),
	).Parser()
	spanParser = parser.NewParser(inlineParsers, parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1)))
)

// parseProse parses Markdown. A block that is no heading, list or table becomes a paragraph of its
// text.
func parseProse(markdown string) Prose {
	source := []byte(markdown)
	var out Prose
	for n := proseParser.Parse(text.NewReader(source)).FirstChild(); n != nil; n = n.NextSibling() {
		switch n.(type) {
		case *ast.FencedCodeBlock:
			code := strings.TrimSuffix(string(n.Lines().Value(source)), "\n")
			out = append(out, Block{Paragraph: []Span{{Text: code, Code: true}}})
		case *ast.Heading:
			title := textFor(n, source)
			out = append(out, Block{Heading: &Heading{title, anchor(title)}})
		case *ast.List:
			out = append(out, Block{List: spansOfEach(n, source)})
		case *tables.Table:
			var rows [][][]Span
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				rows = append(rows, spansOfEach(row, source))
			}
			out = append(out, Block{Table: rows})
		default:
			out = append(out, Block{Paragraph: appendSpans(nil, n, source)})
		}
	}
	return out
}

// ParseSpans parses inline Markdown: `code`, **strong** and [links](to). The result has one Span
// for each piece with the same markup.
func ParseSpans(line string) []Span {
	source := []byte(line)
	return appendSpans(nil, spanParser.Parse(text.NewReader(source)), source)
}

// spansOfEach returns the inline text of each child of a Markdown node. For a table's row, the
// children are its cells; for a list, its entries.
func spansOfEach(parent ast.Node, source []byte) [][]Span {
	var out [][]Span
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		out = append(out, appendSpans(nil, n, source))
	}
	return out
}

// appendSpans appends the inline text of the children of a Markdown node. It joins adjacent plain
// texts. A line break becomes a space.
func appendSpans(out []Span, parent ast.Node, source []byte) []Span {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			span := string(n.Value(source))
			if n.SoftLineBreak() {
				span += " "
			}
			if last := len(out) - 1; last >= 0 && out[last] == (Span{Text: out[last].Text}) {
				out[last].Text += span
			} else {
				out = append(out, Span{Text: span})
			}
		case *ast.CodeSpan:
			out = append(out, Span{Text: textFor(n, source), Code: true})
		case *ast.Link:
			out = append(out, Span{Text: textFor(n, source), Link: string(n.Destination)})
		case *ast.Emphasis:
			out = append(out, Span{Text: textFor(n, source), Strong: true})
		default:
			out = appendSpans(out, n, source)
		}
	}
	return out
}

// textFor returns the text of a Markdown node without markup. Code and links are reduced to their
// texts.
func textFor(n ast.Node, source []byte) string {
	var out strings.Builder
	for _, span := range appendSpans(nil, n, source) {
		out.WriteString(span.Text)
	}
	return out.String()
}

// anchor returns the URL fragment for a title: the title in lower case, with a hyphen for each
// sequence of characters between ASCII letters and digits. A title without ASCII letters and digits
// has the fragment "".
func anchor(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}
