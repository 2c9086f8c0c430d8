package websearch

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// render writes a part of a page as text: paragraphs apart by an empty line, a line for an item of a list and for a row
// of a table, whose cells are apart by bars.
func render(n *html.Node) string {
	var r rendering
	r.node(n)
	return r.out.String()
}

type rendering struct {
	out    strings.Builder
	lines  int  // that are to end before the next word
	space  bool // that is to stand before it
	pre    int  // how deep in preformatted text
	tight  int  // how deep in items and cells, which have no empty lines
	marked bool // an item's mark was written: its text follows on the same line
}

// blocks begin and end a line, or leave an empty one.
var blocks = map[string]int{
	"p": 2, "h1": 2, "h2": 2, "h3": 2, "h4": 2, "h5": 2, "h6": 2, "ul": 2, "ol": 2, "dl": 2, "table": 2, "pre": 2, "blockquote": 2,
	"article": 2, "section": 2, "main": 2, "figure": 2, "details": 2, "aside": 2, "header": 2, "footer": 2, "hr": 2, "fieldset": 2,
	"address": 2,
	"div":     1, "li": 1, "tr": 1, "dt": 1, "dd": 1, "figcaption": 1, "caption": 1, "summary": 1, "body": 1, "center": 1,
	"form": 1, "legend": 1,
	"title": 1, "head": 1, "option": 1, "thead": 1, "tbody": 1,
}

func (r *rendering) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		r.text(n.Data)
		return
	case html.ElementNode:
		if n.Data == "head" { // a title is shown by its window
			return
		}
	default:
	}
	r.begin(n)
	item := 0
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode {
			item++
			r.mark(n, c, item)
		}
		r.node(c)
	}
	r.end(n)
}

func (r *rendering) begin(n *html.Node) {
	if n.Type != html.ElementNode {
		return
	}
	r.lineEnds(blocks[n.Data])
	switch n.Data {
	case "br":
		r.lines, r.space = min(r.lines+1, 2), false
	case "pre":
		r.pre++
	case "li", "td", "th":
		r.tight++
	}
}

func (r *rendering) end(n *html.Node) {
	if n.Type != html.ElementNode {
		return
	}
	switch n.Data {
	case "pre":
		r.pre--
	case "li", "td", "th":
		r.lineEnds(blocks[n.Data])
		r.tight--
	}
	r.lineEnds(blocks[n.Data])
}

// mark writes what stands before an item of a list or a cell of a row.
func (r *rendering) mark(parent, child *html.Node, item int) {
	switch {
	case child.Data == "li":
		r.lineEnds(1)
		if empty(child) {
			return
		}
		if parent.Data == "ol" {
			r.text(strconv.Itoa(item) + ". ")
		} else {
			r.text("- ")
		}
		r.marked = true
	case (child.Data == "td" || child.Data == "th") && item > 1:
		r.lines, r.space = 0, true // a paragraph in the cell before ends no row
		r.text("| ")
		r.marked = true
	}
}

// empty reports a node without text, as far as a quick look tells.
func empty(n *html.Node) bool {
	looked := 0
	for d := range n.Descendants() {
		if looked++; looked > 50 || d.Type == html.TextNode && strings.TrimSpace(d.Data) != "" {
			return false
		}
	}
	return true
}

func (r *rendering) lineEnds(n int) {
	if r.tight > 0 {
		n = min(n, 1)
	}
	if n > 0 && !r.marked {
		r.lines, r.space = max(r.lines, n), false
	}
}

func (r *rendering) text(s string) {
	for _, c := range s {
		switch {
		case c == '\n' && r.pre > 0:
			r.lines, r.space = min(r.lines+1, 2), false
		case c == '\t' && r.pre > 0, c == ' ' && r.pre > 0:
			if r.lines > 0 { // indentation means something there
				r.flush()
			}
			r.out.WriteByte(' ')
		case unicode.IsSpace(c):
			r.space = true
		default:
			r.flush()
			r.out.WriteRune(c)
		}
	}
}

func (r *rendering) flush() {
	if r.out.Len() > 0 && r.lines > 0 {
		r.out.WriteString("\n\n"[:r.lines])
	} else if r.out.Len() > 0 && r.space {
		r.out.WriteByte(' ')
	}
	r.lines, r.space, r.marked = 0, false, false
}

// tidy brings plain text into the form that pages' texts have: what is seen, no spaces at the ends of lines, at most one
// empty line in a row.
func tidy(s string) string {
	var b strings.Builder
	empty := 0
	for l := range strings.SplitSeq(seen(strings.ReplaceAll(s, "\r\n", "\n")), "\n") {
		l = strings.TrimRightFunc(l, unicode.IsSpace)
		if l == "" {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:min(empty+1, 2)])
		}
		b.WriteString(l)
		empty = 0
	}
	return b.String()
}
