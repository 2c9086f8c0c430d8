package websearch

import (
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"parley/workers/internal/invisible"
)

// head is a page's metadata. All of its texts are untrusted.
type head struct {
	// title is the title of the page: the element title, the property og:title or the first
	// heading.
	title string
	// language is the declared language, which may be invalid.
	language   string
	unreadable string          // reason why the page's text must not be used; "" if it may be used
	hidden     invisible.Names // class names and ids of elements that the page's style sheets hide

	// ogTitle and heading are used as the title if the page has no title element.
	ogTitle string
	heading string
}

const maxTitle = 300 // maximum length of a title in characters

// readHead reads a page's metadata. It must be called before elements are removed from the page. It
// visits the whole page, because headings and style sheets may be anywhere.
func readHead(doc *html.Node) head {
	h := head{hidden: invisible.Names{}}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			h.look(n)
		}
	}
	for _, title := range []string{h.title, h.ogTitle, h.heading} {
		if h.title = truncateRunes(line(title), maxTitle); h.title != "" {
			break
		}
	}
	return h
}

// look records the metadata that an element contains. The first title and the first heading are
// used.
func (h *head) look(n *html.Node) {
	switch n.Data {
	case "html":
		h.language = orDefault(attr(n, "lang"), attr(n, "xml:lang"))
	case "title":
		if h.title == "" && n.Namespace == "" { // elements with a namespace are ignored, because images can have titles, too
			h.title = inner(n)
		}
	case "h1":
		if h.heading == "" {
			h.heading = inner(n)
		}
	case "meta":
		h.meta(n)
	case "style":
		h.hidden.Add(inner(n))
	case "script":
		if strings.Contains(attr(n, "type"), "ld+json") && notFree.MatchString(inner(n)) {
			h.unreadable = "it is not freely readable"
		}
	}
}

// notFree matches the schema.org metadata with which a page declares to search engines that it has
// a paywall.
var notFree = regexp.MustCompile(`"isAccessibleForFree"\s*:\s*"?(?i:false)`)

// meta records the metadata of a meta element.
func (h *head) meta(n *html.Node) {
	content := attr(n, "content")
	switch strings.ToLower(orDefault(attr(n, "name"), orDefault(attr(n, "property"), attr(n, "http-equiv")))) {
	case "og:title":
		h.ogTitle = content
	case "content-language":
		if h.language == "" {
			h.language = content
		}
	case "robots":
		if forbidden(content) {
			h.unreadable = "it forbids storing"
		}
	}
}

// forbidden reports whether robots rules forbid storing or showing the text of a page. rules is a
// list, separated by commas.
func forbidden(rules string) bool {
	for rule := range strings.SplitSeq(strings.ToLower(rules), ",") {
		switch strings.ReplaceAll(strings.TrimSpace(rule), " ", "") {
		case "noarchive", "nosnippet", "max-snippet:0":
			return true
		}
	}
	return false
}

// attr returns the value of an attribute, or "" if the element does not have it.
func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// inner returns the text of an element and of the elements up to two levels below it, which is
// enough for titles and style sheets.
func inner(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
			continue
		}
		for d := c.FirstChild; d != nil; d = d.NextSibling {
			if d.Type == html.TextNode {
				b.WriteString(d.Data)
			}
		}
	}
	return b.String()
}
