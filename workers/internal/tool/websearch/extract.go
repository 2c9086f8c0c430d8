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

// Limits of a page's tree and text. The parser itself rejects more than 512 open elements.
const (
	maxNodes     = 200_000         // maximum number of nodes of a page; further nodes are dropped
	maxDepth     = 600             // maximum depth of a node; deeper nodes are dropped
	maxArticle   = 30_000          // maximum number of nodes of a page that is searched for an article; the time is not linear
	maxText      = 200_000         // maximum number of characters of a page's text that are stored
	articleShare = 0.7             // minimum share of a page's running text that its article must contain
	maxParsing   = 4 * time.Second // time limit for parsing, about a hundred times as long as a typical page needs
)

// mainText extracts the main text of a page: its article or, if there is none, all text except
// navigation and similar parts. The cost is bounded for any page. source is the page in UTF-8.
// contentLanguage is the value of the header Content-Language.
//
// The returned page has no address. If the page has no text or must not be used, the error wraps
// errUnread. Other errors mean that the page is nested too deeply or that the time is up.
//
// go-readability finds the article. In trials it removed navigation that go-trafilatura kept, and
// it needs twenty modules fewer. But it omits parts of pages that are not articles, so mainText
// ignores an article that omits too much of the page.
func mainText(ctx context.Context, source, contentLanguage string) (p *page, err error) {
	defer func() {
		if cause := recover(); cause != nil { // a malicious page may make the parser panic
			p, err = nil, fmt.Errorf("%w: parsing it: %v", errUnread, cause)
		}
	}()

	ctx, cancel := context.WithTimeout(ctx, maxParsing)
	defer cancel()

	doc, err := html.Parse(&timedReader{ctx, strings.NewReader(source)})
	if err != nil {
		return nil, fmt.Errorf("parsing page: %w", err)
	}

	// The metadata is read first, because it may forbid using the text and because pruning removes
	// it.
	head := readHead(doc)
	if head.unreadable != "" {
		return nil, fmt.Errorf("%w: %s", errUnread, head.unreadable)
	}

	left := pruner{hidden: head.hidden, nodes: maxNodes}
	left.prune(doc, position{})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading page: %w", context.Cause(ctx))
	}

	// The article is used if it contains most of the running text. Otherwise the page is not an
	// article.
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

// finish converts the text of a page to the form in which it is stored. If the page declares no
// language, finish determines it. finish truncates the text to maxText characters. It must be
// called once for each page.
func (p *page) finish(contentLanguage string) {
	p.text = strings.TrimSpace(norm.NFC.String(p.text))
	if kept := truncateText(p.text, maxText); kept != p.text {
		p.text, p.truncated = kept, true
	}

	// The language that the page declares comes first, then the language in the header, and then a
	// guess.
	if p.language == "" {
		p.language = declaredLanguage(contentLanguage)
	}
	if p.language == "" {
		p.language = languageFor(p.text)
	}
}

// findArticle returns the article of a page, or nil. It does not change the page. It examines only
// pages with at most maxArticle nodes.
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

// running returns the number of characters of running text in a node. White space and the text of
// links are not counted.
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

// truncateText truncates a text to at most limit characters, if possible at the end of a line or
// word. A line end is used within the last 2,000 bytes, and a space within the last 200.
func truncateText(s string, limit int) string {
	kept := truncateRunes(s, limit)
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

// timedReader is a reader that fails when its context ends. It thereby limits the time of a parser
// that reads from it.
type timedReader struct {
	ctx context.Context //nolint:containedctx // used only during one call
	r   io.Reader
}

// Read returns at most 4 KiB at a time, so that the context is checked frequently.
func (t *timedReader) Read(p []byte) (int, error) {
	if t.ctx.Err() != nil {
		return 0, context.Cause(t.ctx)
	}
	return t.r.Read(p[:min(len(p), 4096)])
}
