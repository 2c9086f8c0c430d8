package markup

import (
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// unseen is what an element's own style says to hide it by.
var unseen = regexp.MustCompile(`(?i)(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0?\.?0+\s*(?:!|;|$)|` +
	`font-size\s*:\s*0(?:\.0+)?(?:[a-z%]+)?\s*(?:!|;|$)|color\s*:\s*transparent|content-visibility\s*:\s*hidden)`)

// hidden reports elements that a reader of the page does not see.
func hidden(n *html.Node) bool {
	if n.Data == "html" || n.Data == "body" { // hidden until a script has run
		return false
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			if !strings.EqualFold(a.Val, "until-found") {
				return true
			}
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") && n.Data != "table" {
				return true
			}
		case "style":
			if unseen.MatchString(a.Val) {
				return true
			}
		}
	}
	return false
}
