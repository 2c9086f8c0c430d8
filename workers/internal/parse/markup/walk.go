package markup

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"parley/workers/internal/document"
	"parley/workers/internal/invisible"
	"parley/workers/internal/parse"
)

// walk visits each element of a page once, and writes the page's blocks. Text is collected in the
// current block, until an element begins or ends a block. The first error of the writer out stops
// the walk and is kept in the field err. A walk is used for one page.
type walk struct {
	hidden invisible.Names // class names and ids of elements that the page's style sheets hide
	out    *parse.Writer
	text   strings.Builder // text of the current block
	space  bool            // true if a space must be written before the next word
	kind   document.Kind   // kind of the current block
	// level is the level of the current block if it is a heading, and otherwise 0.
	level   int
	mark    string // bullet or number of the list item whose text follows
	pre     int    // number of enclosing preformatted elements
	menus   bool   // true to include navigation
	skipped bool   // true if navigation with text was omitted
	// err is the first error of out.
	err error
}

// dropped lists elements whose content is not part of the page's text.
var dropped = map[string]bool{
	"head": true, "script": true, "style": true, "noscript": true, "template": true, "iframe": true, "object": true, "embed": true,
	"svg": true, "canvas": true, "audio": true, "video": true, "button": true, "select": true, "textarea": true, "input": true,
	"datalist": true, "dialog": true, "noembed": true, "noframes": true, "rp": true, "rt": true, "annotation": true,
	"annotation-xml": true, "frameset": true,
}

// blocks lists block-level elements.
var blocks = map[string]bool{
	"address": true, "article": true, "aside": true, "blockquote": true, "body": true, "caption": true, "center": true, "dd": true,
	"details": true, "dir": true, "div": true, "dl": true, "dt": true, "fieldset": true, "figcaption": true, "figure": true,
	"footer": true, "form": true, "h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true, "header": true,
	"hgroup": true, "hr": true, "html": true, "legend": true, "li": true, "main": true, "menu": true, "nav": true, "ol": true,
	"optgroup": true, "option": true, "p": true, "pre": true, "search": true, "section": true, "summary": true, "table": true,
	"tbody": true, "td": true, "tfoot": true, "th": true, "thead": true, "tr": true, "ul": true,
}

// children reads the children of an element. It also numbers the items of ordered lists. It stops
// at the first error.
func (w *walk) children(n *html.Node) {
	number := start(n)
	for c := n.FirstChild; c != nil && w.err == nil; c = c.NextSibling {
		if c.Type == html.ElementNode && c.Data == "li" {
			w.flush()
			if w.mark = ""; n.Data == "ol" {
				w.mark = strconv.Itoa(number) + ". "
				number++
			}
		}
		w.node(c)
	}
}

// start returns the number of a list's first item. It is 1 unless an ordered list states another
// number.
func start(n *html.Node) int {
	if v, err := strconv.Atoi(attr(n, "start")); err == nil && n.Data == "ol" {
		return v
	}
	return 1
}

// node reads a node and its descendants. It ignores comments and the document type.
func (w *walk) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		w.words(n.Data)
	case html.ElementNode:
		w.element(n)
	case html.DocumentNode:
		w.children(n)
	default:
	}
}

// element reads an element. It skips hidden elements, dropped elements and, unless w.menus is true,
// navigation. Images are represented by their alternative texts.
func (w *walk) element(n *html.Node) {
	switch {
	case dropped[n.Data] || invisible.Element(n, w.hidden) || permalink(n):
		return
	case n.Data == "nav" || attr(n, "role") == "navigation":
		if !w.menus {
			w.skipped = w.skipped || !empty(n)
			return
		}
	}

	switch n.Data {
	case "br":
		w.text.WriteByte('\n')
		w.space = false
	case "img":
		w.space = true
		w.words(attr(n, "alt"))
		w.space = true
	case "wbr":
	case "table":
		w.flush()
		w.table(n)
	default:
		if blocks[n.Data] {
			w.block(n)
			return
		}
		w.children(n)
	}
}

// block writes a block-level element. Text before it and after it belongs to other blocks.
// Afterwards, the kind and level of the surrounding block apply again.
func (w *walk) block(n *html.Node) {
	w.flush()
	kind, level := w.kind, w.level
	switch n.Data {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.kind, w.level = document.Heading, int(n.Data[1]-'0')
	case "li":
		w.kind = document.Item
	case "pre":
		w.kind = document.Verbatim
		w.pre++
	case "ul", "ol", "dl":
		w.kind = document.Paragraph
	}

	w.children(n)
	w.flush()
	if n.Data == "pre" {
		w.pre--
	}
	if n.Data == "li" {
		w.mark = ""
	}
	w.kind, w.level = kind, level
}

// words adds text to the current block, with collapsed white space unless the text is preformatted.
// White space at the end is added only when further text follows.
func (w *walk) words(s string) {
	if w.pre > 0 {
		w.text.WriteString(s)
		return
	}

	for len(s) > 0 {
		end := strings.IndexFunc(s, unicode.IsSpace)
		if end != 0 {
			if end < 0 {
				end = len(s)
			}
			if w.space && w.text.Len() > 0 {
				w.text.WriteByte(' ')
			}
			w.text.WriteString(s[:end])
			w.space = false
		} else {
			w.space = true
			end = len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
		}
		s = s[end:]
	}
}

// flush writes the current block if it has text. Either way, the next text begins a new block.
func (w *walk) flush() {
	text := w.text.String()
	w.text.Reset()
	w.space = false
	if w.err != nil || strings.TrimSpace(text) == "" {
		return
	}

	b := document.Block{Kind: w.kind, Level: w.level, Text: text}
	if b.Kind == "" {
		b.Kind = document.Paragraph
	}
	if b.Kind == document.Item {
		b.Text, w.mark = w.mark+strings.TrimSpace(text), ""
	}
	w.err = w.out.Put(b)
}

// inline returns an element's text as one line, without writing it. It includes navigation, but no
// hidden text.
func (w *walk) inline(n *html.Node) string {
	in := walk{menus: true, hidden: w.hidden}
	in.within(n)
	return strings.TrimSpace(in.text.String())
}

// within reads an element's children as a part of the current block, without beginning new blocks.
// Blocks inside of the element are separated by spaces.
func (w *walk) within(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type == html.TextNode:
			w.words(c.Data)
		case c.Type != html.ElementNode || dropped[c.Data] || invisible.Element(c, w.hidden) || permalink(c):
		case c.Data == "img":
			w.space = true
			w.words(attr(c, "alt"))
			w.space = true
		default:
			w.space = w.space || blocks[c.Data] || c.Data == "br"
			w.within(c)
			w.space = w.space || blocks[c.Data]
		}
	}
}

// attr returns the value of an element's attribute, or "" if the attribute is missing.
func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// empty reports whether a node contains no text.
func empty(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.TextNode && strings.TrimSpace(d.Data) != "" {
			return false
		}
	}
	return true
}

// permalink reports whether the text of a link is only a symbol. Such a link leads from a heading
// to the heading itself, or connects a text with its footnotes.
func permalink(n *html.Node) bool {
	if n.Data != "a" {
		return false
	}
	for c := range strings.FieldsSeq(attr(n, "class")) {
		switch c {
		case "headerlink", "footnote-ref", "footnote-backref", "footnote-back":
			return true
		}
	}
	return false
}
