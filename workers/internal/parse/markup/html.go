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

// declared is where pages say their encoding.
var declared = regexp.MustCompile(`(?i)(?:<\?xml[^>]{0,200}?encoding|<meta[^>]{0,500}?charset)\s*=\s*["']?\s*([a-z0-9_:.-]{2,40})`)

// HTML reads a page.
func HTML(_ context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	doc, err := page(in.Content, in.Charset)
	if err != nil {
		return document.Info{}, err
	}
	info := about(doc)
	skipped, err := tell(doc, out)
	if skipped {
		info.Notes = append(info.Notes, "Navigation menus of the page were omitted.")
	}
	return info, err
}

// XHTML reads a page that is part of a document.
func XHTML(content []byte, out *parse.Writer) (document.Info, error) {
	doc, err := page(content, "")
	if err != nil {
		return document.Info{}, err
	}
	_, err = tell(doc, out)
	return about(doc), err
}

// tell tells the text of a page; that of its menus only when there is no other.
func tell(doc *html.Node, out *parse.Writer) (skipped bool, err error) {
	w := walk{out: out, hidden: styled(doc)}
	before := out.Room()
	w.node(doc)
	w.flush()
	if w.err == nil && w.skipped && out.Room() == before {
		w = walk{out: out, menus: true, hidden: w.hidden}
		w.node(doc)
		w.flush()
	}
	return w.skipped, w.err
}

// styled returns what the style sheets in a page hide.
func styled(doc *html.Node) invisible.Names {
	names := invisible.Names{}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "style" && n.FirstChild != nil {
			names.Add(n.FirstChild.Data)
		}
	}
	return names
}

func page(content []byte, said string) (*html.Node, error) {
	if m := declared.FindSubmatch(content[:min(len(content), 4096)]); m != nil && said == "" {
		said = string(m[1])
	}
	text, _ := charset.Decode(content, said)
	if head := text[:min(len(text), 512)]; strings.Contains(head, "<?xml") || strings.Contains(head, "XHTML") {
		text = opened(text)
	}
	doc, err := html.ParseWithOptions(strings.NewReader(once(text)), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, &document.Failure{Code: document.TooLarge, Message: "Elements of the page are nested too deeply."}
	}
	return doc, nil
}

// outermost are the start tags whose attributes the parser adds to those of the first one, which it compares all of each time.
var outermost = regexp.MustCompile(`(?i)<(?:html|body)\s[^>]*>`)

// maxOutermost is how many of these tags keep their attributes: pages that were put together have a few.
const maxOutermost = 20

// once takes the attributes off all but the first tags of the page's outermost elements.
func once(text string) string {
	seen := 0
	return outermost.ReplaceAllStringFunc(text, func(tag string) string {
		if seen++; seen <= maxOutermost {
			return tag
		}
		return tag[:5] + ">"
	})
}

// closed are elements of XHTML that end where they begin.
var closed = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^<>"'=]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*/>`)

// opened writes elements that end where they begin in the way that HTML knows.
func opened(text string) string {
	return closed.ReplaceAllStringFunc(text, func(tag string) string {
		name := strings.ToLower(closed.FindStringSubmatch(tag)[1])
		switch name {
		case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "param":
			return tag
		}
		return strings.TrimSuffix(tag, "/>") + "></" + name + ">"
	})
}

// about is what a page says of itself.
func about(doc *html.Node) document.Info {
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
