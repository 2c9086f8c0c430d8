package markup

import (
	"golang.org/x/net/html"

	"parley/workers/internal/parse"
)

// BookPage reads a page of a book and writes its blocks to out. The caller has begun the page. If
// the page has no heading and title is not "", title is added as its heading.
func BookPage(content []byte, title string, out *parse.Writer) error {
	doc, err := page(content, "")
	if err != nil {
		return err
	}
	if title != "" && !hasHeading(doc) {
		if err := out.Heading(1, title); err != nil {
			return err
		}
	}
	_, err = writePage(doc, out)
	return err
}

// hasHeading reports whether a page has a heading with text.
func hasHeading(doc *html.Node) bool {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' && !empty(n) {
			return true
		}
	}
	return false
}

// Link is a hyperlink in a page. Address is the unresolved value of the attribute href. Text is the
// link's text as one line.
type Link struct{ Address, Text string }

// Links returns the hyperlinks of a page in order. It includes links in navigation, because tables
// of contents are navigation.
func Links(content []byte) ([]Link, error) {
	doc, err := page(content, "")
	if err != nil {
		return nil, err
	}
	var links []Link
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "a" && attr(n, "href") != "" {
			links = append(links, Link{Address: attr(n, "href"), Text: (&walk{}).inline(n)})
		}
	}
	return links, nil
}
