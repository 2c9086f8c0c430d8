package websearch

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"

	"parley/workers/internal/invisible"
)

// pruning takes out of a page what its reader does not see and what is not its content, in one walk.
type pruning struct {
	hidden invisible.Names
	nodes  int  // that may still be looked at
	cut    bool // there were more, or deeper ones
}

// place is where in a page an element stands.
type place struct {
	depth   int
	content bool // inside main or article
}

// extent is how much text is below a node, in characters, how much of that in links, and how many nodes.
type extent struct{ text, links, nodes int }

// prune looks at a node's children and gives the extent of those that stay.
func (p *pruning) prune(n *html.Node, at place) extent {
	var all extent
	for c := n.FirstChild; c != nil; {
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

func (p *pruning) look(n *html.Node, at place) (extent, bool) {
	if p.nodes--; p.nodes < 0 || at.depth > maxDepth {
		p.nodes, p.cut = max(p.nodes, 0), true
		return extent{}, false
	}
	switch n.Type {
	case html.TextNode:
		n.Data = seen(n.Data)
		return extent{text: letters(n.Data)}, true
	case html.ElementNode:
	default:
		return extent{}, n.Type == html.DoctypeNode
	}
	if dropped[n.Data] || invisible.Element(n, p.hidden) || surrounding(n, at) {
		return extent{}, false
	}
	inside := place{depth: at.depth + 1, content: at.content || n.Data == "main" || n.Data == "article"}
	below := p.prune(n, inside)
	if n.Data == "a" {
		below.links = below.text
	}
	return below, !notice(n, below) && !menu(n, below)
}

func letters(s string) int {
	n := 0
	for _, r := range s {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// dropped are elements whose content is no text of the page.
var dropped = map[string]bool{
	"script": true, "style": true, "noscript": true, "template": true, "iframe": true, "object": true, "embed": true, "svg": true,
	"canvas": true, "audio": true, "video": true, "button": true, "select": true, "textarea": true, "input": true, "datalist": true,
	"dialog": true, "nav": true, "menu": true, "noembed": true, "noframes": true,
}

// surroundingRoles are parts of pages that are about the page, not in it.
var surroundingRoles = map[string]bool{
	"navigation": true, "dialog": true, "alertdialog": true, "search": true, "menu": true, "menubar": true, "contentinfo": true,
	"tooltip": true,
}

func surrounding(n *html.Node, at place) bool {
	return n.Data == "footer" && !at.content || surroundingRoles[strings.ToLower(attr(n, "role"))]
}

// Names of cookie notices; of parts that lead elsewhere. Both are only a reason to look closer.
var (
	noticeName = regexp.MustCompile(`(?i)(?:cookie|consent|gdpr|onetrust|cookiebot|didomi|usercentrics|qc-cmp|sp_message|truste|\bcmp\b)`)
	menuName   = regexp.MustCompile(`(?i)(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|sidebar|footer|foot|share|sharing|social|newsletter|` +
		`subscribe|related|recommended|advert|ads|banner|pagination|pager|toc|skip-link|popup|modal)(?:$|[\s_-])`)
)

// Sizes of parts that surround content, in characters.
const (
	maxNotice = 3000
	maxMenu   = 300
	maxAround = 500 // nodes: these are looked at again for each part that they are in
)

// notice reports cookie notices: named as one, of a notice's size, and with a word of it.
func notice(n *html.Node, below extent) bool {
	return part(n) && below.nodes <= maxAround && below.text <= maxNotice && noticeName.MatchString(names(n)) && !isContent(n) &&
		mentions(n, "cookie", "consent", "einwillig", "隐私", "الارتباط")
}

// menu reports parts that are named as ones that lead elsewhere, and consist of links or of very little.
func menu(n *html.Node, below extent) bool {
	lean := 2*below.links >= below.text || below.text <= maxMenu
	return part(n) && below.nodes <= maxAround && lean && menuName.MatchString(names(n)) && !isContent(n) && !tells(n)
}

func part(n *html.Node) bool {
	switch n.Data {
	case "div", "section", "aside", "ul", "ol", "form", "footer", "header", "p", "span":
		return true
	default:
		return false
	}
}

func names(n *html.Node) string { return attr(n, "id") + " " + attr(n, "class") }

// mentions looks for words in what is left of a small part.
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

// isContent reports parts with a heading of the page itself: they are content whatever they are called.
func isContent(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && (d.Data == "h1" || d.Data == "main" || d.Data == "article") {
			return true
		}
	}
	return false
}

// tells reports a paragraph that is more than a label.
func tells(n *html.Node) bool {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == "p" && running(d) > 80 {
			return true
		}
	}
	return false
}
