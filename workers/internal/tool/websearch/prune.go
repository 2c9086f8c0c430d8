package websearch

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"parley/workers/internal/invisible"
)

// pruner removes invisible parts and parts without content from a page, in one traversal. It is
// used for one page.
type pruner struct {
	// hidden contains the elements that the page's style sheets hide.
	hidden invisible.Names
	nodes  int  // number of nodes that may still be visited
	cut    bool // true if nodes were dropped because of maxNodes or maxDepth
}

// position is the position of an element in a page.
type position struct {
	depth   int
	content bool // true inside of a main or article element
}

// extent is the size of a subtree: characters of text, characters of text in links, and nodes.
type extent struct{ text, links, nodes int }

// prune removes the unwanted children of a node. It returns the total extent of the remaining
// children. The recursion is bounded by maxDepth.
func (p *pruner) prune(n *html.Node, at position) extent {
	var all extent
	for c := n.FirstChild; c != nil; {
		// RemoveChild clears the child's sibling pointers, so the next child must be read before
		// the call.
		next := c.NextSibling
		below, keep := p.look(c, at)
		if keep {
			all.text += below.text
			all.links += below.links
			all.nodes += below.nodes + 1
		} else {
			n.RemoveChild(c)
		}
		c = next
	}
	return all
}

// look removes the unwanted parts of a node. It returns the extent of the remaining parts, and
// whether the node itself should be kept. It also removes invisible characters from texts.
func (p *pruner) look(n *html.Node, at position) (extent, bool) {
	if p.nodes--; p.nodes < 0 || at.depth > maxDepth {
		p.nodes, p.cut = max(p.nodes, 0), true
		return extent{}, false
	}

	// Comments and other nodes without text are removed.
	switch n.Type {
	case html.TextNode:
		n.Data = visible(n.Data)
		return extent{text: letters(n.Data)}, true
	case html.ElementNode:
	default:
		return extent{}, n.Type == html.DoctypeNode
	}

	if dropped[n.Data] || invisible.Element(n, p.hidden) || surrounding(n, at) {
		return extent{}, false
	}

	// Children are pruned first, because the decision about the node depends on its remaining
	// content.
	inside := position{depth: at.depth + 1, content: at.content || n.Data == "main" || n.Data == "article"}
	below := p.prune(n, inside)
	if n.Data == "a" {
		below.links = below.text
	}
	return below, !notice(n, below) && !menu(n, below)
}

// letters counts the characters of a text that are not white space.
func letters(s string) int {
	n := 0
	for _, r := range s {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// dropped lists elements whose content does not belong to the page's text.
var dropped = map[string]bool{
	"script": true, "style": true, "noscript": true, "template": true, "iframe": true, "object": true, "embed": true, "svg": true,
	"canvas": true, "audio": true, "video": true, "button": true, "select": true, "textarea": true, "input": true, "datalist": true,
	"dialog": true, "nav": true, "menu": true, "noembed": true, "noframes": true,
}

// surroundingRoles lists the ARIA roles of elements that are not content.
var surroundingRoles = map[string]bool{
	"navigation": true, "dialog": true, "alertdialog": true, "search": true, "menu": true, "menubar": true, "contentinfo": true,
	"tooltip": true,
}

// surrounding reports whether an element, for example a navigation bar, surrounds the content
// instead of being part of it. A footer inside of an article belongs to the content.
func surrounding(n *html.Node, at position) bool {
	return n.Data == "footer" && !at.content || surroundingRoles[strings.ToLower(attr(n, "role"))]
}

// Class names and ids that suggest a cookie notice or navigation. A part with such a name is
// removed only if further checks confirm that it is a notice or navigation.
var (
	noticeName = regexp.MustCompile(`(?i)(?:cookie|consent|gdpr|onetrust|cookiebot|didomi|usercentrics|qc-cmp|sp_message|truste|\bcmp\b)`)
	menuName   = regexp.MustCompile(`(?i)(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|sidebar|footer|foot|share|sharing|social|newsletter|` +
		`subscribe|related|recommended|advert|ads|banner|pagination|pager|toc|skip-link|popup|modal)(?:$|[\s_-])`)
)

// Limits of the parts around the content, in characters.
const (
	maxNotice = 3000
	maxMenu   = 300
	maxAround = 500 // number of nodes; limited because nested parts are visited several times
)

// notice reports whether a part is a cookie notice: its name suggests one, and the part is small
// and contains a typical word.
func notice(n *html.Node, below extent) bool {
	return part(n) && below.nodes <= maxAround && below.text <= maxNotice && noticeName.MatchString(names(n)) && !isContent(n) &&
		mentions(n, "cookie", "consent", "einwillig", "隐私", "الارتباط")
}

// menu reports whether a part is navigation: its name suggests navigation, and the part is very
// short or consists mostly of links.
func menu(n *html.Node, below extent) bool {
	lean := 2*below.links >= below.text || below.text <= maxMenu
	return part(n) && below.nodes <= maxAround && lean && menuName.MatchString(names(n)) && !isContent(n) && !hasParagraph(n)
}

// part reports whether an element may be removed together with its content. Elements with a meaning
// of their own, such as headings and tables, are always kept.
func part(n *html.Node) bool {
	switch n.Data {
	case "div", "section", "aside", "ul", "ol", "form", "footer", "header", "p", "span":
		return true
	default:
		return false
	}
}

// names returns the id and the class names of an element.
func names(n *html.Node) string { return attr(n, "id") + " " + attr(n, "class") }

// mentions reports whether a part contains any of the given words, which are in lower case. The
// part must be small, because the whole of it is searched.
func mentions(n *html.Node, words ...string) bool {
	for d := range n.Descendants() {
		if d.Type != html.TextNode {
			continue
		}
		text := strings.ToLower(d.Data)
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
	}
	return false
}

// isContent reports whether a part contains the main heading or main content of the page. Such a
// part is kept even if its name suggests otherwise.
func isContent(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && (d.Data == "h1" || d.Data == "main" || d.Data == "article") {
			return true
		}
	}
	return false
}

// hasParagraph reports whether a part contains a paragraph that is longer than a label.
func hasParagraph(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == "p" && running(d) > 80 {
			return true
		}
	}
	return false
}
