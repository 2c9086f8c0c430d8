package websearch

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// render converts a part of a page to text. Empty lines separate paragraphs. Each list item and
// each table row is a line, and "|" separates the cells of a row. The text neither begins nor ends
// with white space. The page must have been pruned, because render omits only the head.
func render(n *html.Node) string {
	var r renderer
	r.node(n)
	return r.out.String()
}

// renderer is the state of rendering. White space is not written when it is requested, but before
// the next text, so that several requests do not add up.
type renderer struct {
	out    strings.Builder
	lines  int  // number of newlines to write before the next word
	space  bool // a space is to be written before the next word
	pre    int  // number of enclosing preformatted elements
	tight  int  // number of enclosing list items and table cells; no empty lines are written inside of these
	marked bool // the mark of a list item was written, and the item's text follows on the same line
}

// blocks lists elements that begin and end with a line break (1) or with an empty line (2).
var blocks = map[string]int{
	"p": 2, "h1": 2, "h2": 2, "h3": 2, "h4": 2, "h5": 2, "h6": 2, "ul": 2, "ol": 2, "dl": 2, "table": 2, "pre": 2, "blockquote": 2,
	"article": 2, "section": 2, "main": 2, "figure": 2, "details": 2, "aside": 2, "header": 2, "footer": 2, "hr": 2, "fieldset": 2,
	"address": 2,
	"div":     1, "li": 1, "tr": 1, "dt": 1, "dd": 1, "figcaption": 1, "caption": 1, "summary": 1, "body": 1, "center": 1,
	"form": 1, "legend": 1,
	"title": 1, "head": 1, "option": 1, "thead": 1, "tbody": 1,
}

// node writes a node and its children.
func (r *renderer) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		r.text(n.Data)
		return
	case html.ElementNode:
		if n.Data == "head" { // do not write the title, because the head is not part of the text
			return
		}
	default:
	}
	r.begin(n)

	// The parent writes the mark of each item, because it counts the items.
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

// begin updates the state before the content of an element is written. Nodes other than elements
// have no effect.
func (r *renderer) begin(n *html.Node) {
	if n.Type != html.ElementNode {
		return
	}
	r.newlines(blocks[n.Data])
	switch n.Data {
	case "br":
		r.lines, r.space = min(r.lines+1, 2), false
	case "pre":
		r.pre++
	case "li", "td", "th":
		r.tight++
	}
}

// end updates the state after the content of an element is written.
func (r *renderer) end(n *html.Node) {
	if n.Type != html.ElementNode {
		return
	}
	switch n.Data {
	case "pre":
		r.pre--
	case "li", "td", "th":
		r.newlines(blocks[n.Data])
		r.tight--
	}
	r.newlines(blocks[n.Data])
}

// mark writes the mark of a list item, or the separator before a table cell. The argument item is
// the position of the child among the elements of its parent, from 1. An empty item has no mark.
func (r *renderer) mark(parent, child *html.Node, item int) {
	switch {
	case child.Data == "li":
		r.newlines(1)
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
		r.lines, r.space = 0, true // a paragraph in the previous cell must not end the row's line
		r.text("| ")
		r.marked = true
	}
}

// empty reports whether a node contains no text. It examines only the first 50 descendants; a
// larger node counts as not empty.
func empty(n *html.Node) bool {
	looked := 0
	for d := range n.Descendants() {
		if looked++; looked > 50 || d.Type == html.TextNode && strings.TrimSpace(d.Data) != "" {
			return false
		}
	}
	return true
}

// newlines requests n newlines before the next text, but at most one inside of a list item or table
// cell. After the mark of an item or cell, it does nothing, so that the text stays on the line of
// the mark.
func (r *renderer) newlines(n int) {
	if r.tight > 0 {
		n = min(n, 1)
	}
	if n > 0 && !r.marked {
		r.lines, r.space = max(r.lines, n), false
	}
}

// text writes text with collapsed white space, except in preformatted text. There, indentation and
// single newlines are kept, and several empty lines become one.
func (r *renderer) text(s string) {
	for _, c := range s {
		switch {
		case c == '\n' && r.pre > 0:
			r.lines, r.space = min(r.lines+1, 2), false
		case c == '\t' && r.pre > 0, c == ' ' && r.pre > 0:
			if r.lines > 0 { // in preformatted text, indentation at the beginning of a line is significant
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

// flush writes the pending newlines or the pending space.
func (r *renderer) flush() {
	// White space is written only between texts, so the result neither begins nor ends with it.
	if r.out.Len() > 0 && r.lines > 0 {
		r.out.WriteString("\n\n"[:r.lines])
	} else if r.out.Len() > 0 && r.space {
		r.out.WriteByte(' ')
	}
	r.lines, r.space, r.marked = 0, false, false
}

// tidy converts plain text to the form in which the texts of pages are stored: with visible
// characters only, without trailing spaces, and without consecutive empty lines.
func tidy(s string) string {
	var b strings.Builder
	empty := 0
	for l := range strings.SplitSeq(visible(strings.ReplaceAll(s, "\r\n", "\n")), "\n") {
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
