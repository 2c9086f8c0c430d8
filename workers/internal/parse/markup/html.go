package markup

import (
	"context"
	"regexp"
	"strings"

	"golang.org/x/net/html"

	"parley/workers/internal/document"
	"parley/workers/internal/invisible"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// declared matches the declaration of the character encoding in a page.
var declared = regexp.MustCompile(`(?i)(?:<\?xml[^>]{0,200}?encoding|<meta[^>]{0,500}?charset)\s*=\s*["']?\s*([a-z0-9_:.-]{2,40})`)

// HTML reads an HTML document. The declared encoding of the input takes precedence over the
// encoding that the page declares. If navigation menus were omitted, the returned information
// contains a note about this.
func HTML(_ context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	doc, err := page(in.Content, in.Charset)
	if err != nil {
		return document.Info{}, err
	}
	info := metadata(doc)
	skipped, err := writePage(doc, out)
	if skipped {
		info.Notes = append(info.Notes, "The page's navigation menus were omitted.")
	}
	return info, err
}

// XHTML reads a page that is a part of another document, such as converted Markdown. It determines
// the encoding only from the content.
func XHTML(content []byte, out *parse.Writer) (document.Info, error) {
	doc, err := page(content, "")
	if err != nil {
		return document.Info{}, err
	}
	_, err = writePage(doc, out)
	return metadata(doc), err
}

// writePage writes the text of a page. It omits navigation menus, unless the page has no other
// text. skipped reports whether a menu with text was omitted.
func writePage(doc *html.Node, out *parse.Writer) (skipped bool, err error) {
	w := walk{out: out, hidden: hiddenByStyle(doc)}
	before := out.Remaining()
	w.node(doc)
	w.flush()
	// The page consists only of menus, so their text is better than no text.
	if w.err == nil && w.skipped && out.Remaining() == before {
		w = walk{out: out, menus: true, hidden: w.hidden}
		w.node(doc)
		w.flush()
	}
	return w.skipped, w.err
}

// hiddenByStyle returns the class names and ids of elements that the page's style sheets hide.
func hiddenByStyle(doc *html.Node) invisible.Names {
	names := invisible.Names{}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "style" && n.FirstChild != nil {
			names.Add(n.FirstChild.Data)
		}
	}
	return names
}

// page decodes and parses a page. The argument said is the encoding that the sender declared, or ""
// if the sender declared none. The parser rejects no text except for deep nesting. In that case,
// page fails with the code too_large.
func page(content []byte, said string) (*html.Node, error) {
	if m := declared.FindSubmatch(content[:min(len(content), 4096)]); m != nil && said == "" {
		said = string(m[1])
	}
	text, _ := charset.Decode(content, said)
	// An HTML parser ignores the slash of self-closing elements. Without the conversion below, all
	// text after an empty title or script would be inside of that element.
	if head := text[:min(len(text), 512)]; strings.Contains(head, "<?xml") || strings.Contains(head, "XHTML") {
		text = expandSelfClosing(text)
	}
	doc, err := html.ParseWithOptions(strings.NewReader(stripRepeated(text)), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, &document.Failure{Code: document.TooLarge, Message: "Elements in the page are nested too deeply."}
	}
	return doc, nil
}

// outermost matches the start tags of html and body. If a page repeats these tags, the parser
// merges their attributes, which takes quadratic time.
var outermost = regexp.MustCompile(`(?i)<(?:html|body)\s[^>]*>`)

// maxOutermost is the number of html and body tags that keep their attributes. Even a page that
// consists of several concatenated pages has only a few of these tags.
const maxOutermost = 20

// stripRepeated removes the attributes of all html and body tags after the first maxOutermost tags.
func stripRepeated(text string) string {
	seen := 0
	return outermost.ReplaceAllStringFunc(text, func(tag string) string {
		if seen++; seen <= maxOutermost {
			return tag
		}
		return tag[:5] + ">"
	})
}

// selfClosing matches self-closing elements of XHTML.
var selfClosing = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^<>"'=]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*/>`)

// expandSelfClosing replaces each self-closing element of XHTML with a start tag and an end tag,
// because HTML has no self-closing elements.
func expandSelfClosing(text string) string {
	return selfClosing.ReplaceAllStringFunc(text, func(tag string) string {
		name := strings.ToLower(selfClosing.FindStringSubmatch(tag)[1])
		switch name {
		case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "param":
			return tag
		}
		return strings.TrimSuffix(tag, "/>") + "></" + name + ">"
	})
}

// metadata returns a page's title and language. Without a title, the first heading of level 1 is
// the title. Either may be "".
func metadata(doc *html.Node) document.Info {
	var info document.Info
	heading := ""
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "html":
			if info.Language = attr(n, "lang"); info.Language == "" {
				info.Language = attr(n, "xml:lang")
			}
		case "title":
			if info.Title == "" && n.Parent != nil && n.Parent.Data == "head" {
				info.Title = (&walk{}).inline(n)
			}
		case "h1":
			if heading == "" {
				heading = (&walk{}).inline(n)
			}
		}
	}

	if info.Title == "" {
		info.Title = heading
	}
	return info
}
