package websearch

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/text/unicode/norm"
)

// Limits of a page's tree and text. Parsing refuses more than 512 open elements by itself.
const (
	maxNodes     = 200_000         // what comes later is left out
	maxDepth     = 600             // what lies deeper is left out
	maxArticle   = 30_000          // nodes of a page in which the article is searched for: that costs more than linear time
	maxText      = 200_000         // characters kept
	articleShare = 0.7             // of a page's running text that its article must have
	maxParsing   = 4 * time.Second // a hundred times what a usual page takes
)

// mainText takes the main text out of a page: an article where there is one, else all but what surrounds content.
// What it says of a page is only as good as the page; what it costs is bounded, whatever the page. The article is found
// by go-readability: in trials it kept navigation out where go-trafilatura, with twenty more modules below it, did not,
// but it loses parts of pages that are no article. Hence the share: a page whose article leaves much out is kept whole.
func mainText(ctx context.Context, source, contentLanguage string) (p *page, err error) {
	defer func() {
		if cause := recover(); cause != nil { // of a parser, on a page made for that
			p, err = nil, fmt.Errorf("%w: parsing it: %v", errUnread, cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, maxParsing)
	defer cancel()
	doc, err := html.Parse(&timedReader{ctx, strings.NewReader(source)})
	if err != nil {
		return nil, fmt.Errorf("parsing page: %w", err)
	}
	head := readHead(doc)
	if head.unreadable != "" {
		return nil, fmt.Errorf("%w: %s", errUnread, head.unreadable)
	}
	left := pruning{hidden: head.hidden, nodes: maxNodes}
	left.prune(doc, place{})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("taking page apart: %w", context.Cause(ctx))
	}
	whole := render(doc)
	if n := maxNodes - left.nodes; n <= maxArticle {
		if article := findArticle(doc); article != nil && running(article) >= articleShare*running(doc) {
			whole = render(article)
		}
	}
	p = &page{title: head.title, language: declaredLanguage(head.language), text: whole, truncated: left.cut}
	p.finish(contentLanguage)
	if p.text == "" {
		return nil, fmt.Errorf("%w: it has no text", errUnread)
	}
	return p, nil
}

// finish brings a page's text into the form that is kept.
func (p *page) finish(contentLanguage string) {
	p.text = strings.TrimSpace(norm.NFC.String(p.text))
	if kept := cutText(p.text, maxText); kept != p.text {
		p.text, p.truncated = kept, true
	}
	if p.language == "" {
		p.language = declaredLanguage(contentLanguage)
	}
	if p.language == "" {
		p.language = languageFor(p.text)
	}
}

// findArticle gives the part of a page that is an article, nil when none is found. The page stays as it is.
func findArticle(doc *html.Node) *html.Node {
	parser := readability.NewParser()
	parser.MaxElemsToParse = maxArticle
	parser.DisableJSONLD = true
	article, err := parser.ParseDocument(doc, nil)
	if err != nil {
		return nil
	}
	return article.Node
}

// running counts the characters of running text: that is, not of links.
func running(n *html.Node) float64 {
	if n.Type == html.ElementNode && n.Data == "a" {
		return 0
	}
	if n.Type == html.TextNode {
		count := 0
		for _, r := range n.Data {
			if !unicode.IsSpace(r) {
				count++
			}
		}
		return float64(count)
	}
	sum := 0.0
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		sum += running(c)
	}
	return sum
}

// cutText cuts a text after so many characters, where a line or a word ends if one does nearby.
func cutText(s string, limit int) string {
	kept := cutRunes(s, limit)
	if len(kept) == len(s) {
		return s
	}
	for _, end := range []struct {
		at     string
		within int
	}{{"\n", 2000}, {" ", 200}} {
		if i := strings.LastIndex(kept, end.at); i > 0 && i >= len(kept)-end.within {
			return strings.TrimRightFunc(kept[:i], unicode.IsSpace)
		}
	}
	return kept
}

// timedReader stops a parser whose time is over.
type timedReader struct {
	ctx context.Context //nolint:containedctx // a reader has no other way to learn of it, and lives for one call
	r   io.Reader
}

// Read gives no more than 4 KiB at a time, so that the time is looked at often.
func (t *timedReader) Read(p []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, context.Cause(t.ctx)
	}
	return t.r.Read(p[:min(len(p), 4096)])
}
