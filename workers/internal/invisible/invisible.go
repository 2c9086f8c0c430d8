// Package invisible detects elements of web pages and HTML documents that are not visible to a
// reader. Text that only a program sees may contain hidden instructions to a model. The detection
// is approximate: it considers common attributes, common class names, and simple rules of style
// sheets.
package invisible

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Names contains the classes (".name") and ids ("#name") of elements that style sheets hide. A page
// may have several style sheets, whose names are collected with Add.
type Names map[string]bool

// hiddenStyle matches a style attribute that hides the element.
var hiddenStyle = regexp.MustCompile(`(?i)(?:^|;)\s*(?:` + strings.Join([]string{
	`display\s*:\s*none`, `visibility\s*:\s*(?:hidden|collapse)`, `opacity\s*:\s*0?\.?0+\s*(?:!|;|$)`, `font-size\s*:\s*0(?:\.0+)?(?:[a-z%]+)?\s*(?:!|;|$)`,
	`color\s*:\s*transparent`, `(?:left|top|right|text-indent)\s*:\s*-\d{3,}`, `clip\s*:\s*rect\(\s*0`, `clip-path\s*:\s*inset\(\s*(?:50|100)%`,
	`(?:max-)?(?:width|height)\s*:\s*0(?:px)?\s*(?:!|;|$)`, `content-visibility\s*:\s*hidden`, `transform\s*:\s*scale\(\s*0\s*\)`,
}, "|") + `)`)

// hiddenClasses lists class names that are commonly used for hidden elements and for text that is
// only meant for screen readers.
var hiddenClasses = map[string]bool{
	"sr-only": true, "visually-hidden": true, "visuallyhidden": true, "screen-reader-text": true, "screen-reader-only": true,
	"hidden": true, "d-none": true,
}

// Element reports whether an element is invisible, because of its own attributes or because a style
// sheet hides it. names contains the names that style sheets hide; it may be nil.
func Element(n *html.Node, names Names) bool {
	if n.Data == "html" || n.Data == "body" { // some pages hide the body until a script has run, so these elements count as visible
		return false
	}
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		switch a.Key {
		case "hidden":
			return !strings.EqualFold(a.Val, "until-found")
		case "aria-hidden":
			return strings.EqualFold(strings.TrimSpace(a.Val), "true") && n.Data != "table" // some pages hide tables from screen readers
		case "style":
			return hiddenStyle.MatchString(a.Val)
		case "id":
			return names["#"+a.Val]
		case "class":
			return slices.ContainsFunc(strings.Fields(a.Val), func(c string) bool { return hiddenClasses[c] || names["."+c] })
		default:
			return false
		}
	})
}

// These patterns match parts of a style sheet: a rule, a declaration that hides elements, a
// comment, and a selector that consists of a single class or id.
var (
	styleRule   = regexp.MustCompile(`([^{}]*)\{([^{}]*)\}`)
	styleHides  = regexp.MustCompile(`(?i)(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)`)
	styleNote   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	simpleStyle = regexp.MustCompile(`^[.#][\w-]+$`)
)

// maxStyle is the maximum number of bytes of a style sheet that are read.
const maxStyle = 200_000

// Add adds the classes and ids of the elements that a style sheet hides. It considers only
// selectors that consist of a single class or id. It ignores the part of the sheet after maxStyle
// bytes.
func (n Names) Add(sheet string) {
	if len(sheet) > maxStyle {
		sheet = sheet[:maxStyle]
	}
	for _, rule := range styleRule.FindAllStringSubmatch(outsideAtRules(styleNote.ReplaceAllString(sheet, "")), -1) {
		if !styleHides.MatchString(rule[2]) {
			continue
		}
		for selector := range strings.SplitSeq(rule[1], ",") {
			if selector = strings.TrimSpace(selector); simpleStyle.MatchString(selector) {
				n[selector] = true
			}
		}
	}
}

// outsideAtRules returns a style sheet without at-rules, such as @media print, and their blocks.
// Elements that are hidden only by a rule inside an at-rule may be visible on a screen.
func outsideAtRules(sheet string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(sheet, '@')
		if at < 0 {
			b.WriteString(sheet)
			return b.String()
		}
		b.WriteString(sheet[:at])
		sheet = afterAtRule(sheet[at:])
	}
}

// afterAtRule returns the text that follows the at-rule at the beginning of sheet. An at-rule ends
// with a semicolon or with its block. If the at-rule has no end, afterAtRule returns "".
func afterAtRule(sheet string) string {
	depth := 0
	for i := range len(sheet) {
		switch sheet[i] {
		case ';':
			if depth == 0 {
				return sheet[i+1:]
			}
		case '{':
			depth++
		case '}':
			if depth--; depth <= 0 {
				return sheet[i+1:]
			}
		}
	}
	return ""
}
