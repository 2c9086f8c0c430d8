package websearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"

	"parley/shared/outbound"
)

// errUnread is why a page is not used; its text says more, for tests and logs.
var errUnread = errors.New("page cannot be read")

// page is what was read: of a web page, or of a result's snippet when its page cannot be read.
type page struct {
	url       string
	title     string
	language  string // BCP 47, "" when unknown
	text      string
	truncated bool
}

// reader reads pages.
type reader struct {
	client *http.Client
	// bodies bounds how many pages are held in memory. They are not places, for those whose hosts send slowly would then
	// keep all others waiting.
	bodies chan struct{}
	// places bounds how many pages are taken apart at a time: that takes processor time, and pages are anybody's.
	places chan struct{}
}

// read reads the results' pages side by side; a page that cannot be read in time is nil.
func (b *Backend) read(ctx context.Context, hits []hit) []*page {
	type got struct {
		at   int
		page *page
	}
	ctx, cancel := context.WithTimeout(ctx, b.reading)
	defer cancel()
	answers := make(chan got, len(hits)) // so that a late one finds a place, and ends
	for i, h := range hits {
		go func() {
			p, err := b.pages.read(ctx, h.url)
			if err != nil {
				p = nil
			}
			answers <- got{i, p}
		}()
	}
	pages := make([]*page, len(hits))
	for range hits {
		select {
		case g := <-answers:
			pages[g.at] = g.page
		case <-ctx.Done():
			return pages
		}
	}
	return pages
}

// read reads one page.
func (r *reader) read(ctx context.Context, address string) (p *page, err error) {
	defer func() {
		if cause := recover(); cause != nil { // nobody else would: this is a page's own goroutine, and what it reads is anybody's
			p, err = nil, fmt.Errorf("%w: reading it: %v", errUnread, cause)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}
	req.Header.Set("Accept", "text/html, text/plain;q=0.9")
	res, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching page: %w", err)
	}
	defer res.Body.Close()
	if err := readable(res); err != nil {
		return nil, err
	}
	final, ok := webURL(res.Request.URL.String()) // where redirects led
	if !ok {
		return nil, fmt.Errorf("%w: its address cannot be cited", errUnread)
	}
	if err := enter(ctx, r.bodies); err != nil {
		return nil, err
	}
	defer func() { <-r.bodies }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	tooLarge := errors.Is(err, outbound.ErrTooLarge) || len(body) == maxPage
	if err != nil && !tooLarge {
		return nil, fmt.Errorf("fetching page: %w", err)
	}
	if err := enter(ctx, r.places); err != nil {
		return nil, err
	}
	defer func() { <-r.places }()
	if p, err = takeApart(ctx, body, res.Header); err != nil {
		return nil, err
	}
	p.url = final.String()
	p.truncated = p.truncated || tooLarge
	return p, nil
}

// enter takes one of what there is only so much of, unless the time is over before one is free.
func enter(ctx context.Context, free chan<- struct{}) error {
	select {
	case free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a place: %w", context.Cause(ctx))
	}
}

// readable checks that an answer is a page that may be read and kept.
func readable(res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", errUnread, res.StatusCode)
	}
	switch mediaType(res.Header) {
	case "text/html", "application/xhtml+xml", "text/plain":
	default:
		return fmt.Errorf("%w: content type %.60q", errUnread, res.Header.Get("Content-Type"))
	}
	if slices.ContainsFunc(res.Header.Values("X-Robots-Tag"), forbidden) {
		return fmt.Errorf("%w: it forbids storing", errUnread)
	}
	return nil
}

func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind, _, _ = strings.Cut(header.Get("Content-Type"), ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

// takeApart turns a page's bytes into its text.
func takeApart(ctx context.Context, body []byte, header http.Header) (*page, error) {
	text := decode(body, header.Get("Content-Type"))
	if mediaType(header) != "text/plain" {
		return mainText(ctx, text, header.Get("Content-Language"))
	}
	p := &page{text: tidy(text)}
	p.finish(header.Get("Content-Language"))
	if p.text == "" {
		return nil, fmt.Errorf("%w: it has no text", errUnread)
	}
	return p, nil
}

// decode gives a page's text, whatever it is written in: by its byte order mark, its header, its meta element, or, when
// none says, as UTF-8 if it is valid as such, and else as Windows-1252.
func decode(body []byte, contentType string) string {
	encoding, name, certain := charset.DetermineEncoding(body, contentType)
	// Without a declaration only the first kilobyte was looked at, which often is all ASCII.
	if name == "utf-8" || name == "windows-1252" && !certain && utf8.Valid(trimPart(body)) {
		encoding = unicode.UTF8BOM
	}
	text, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		text = body
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // of UTF-16
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// trimPart leaves out a character that was cut in two at the end.
func trimPart(body []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(body); back++ {
		if at := len(body) - back; utf8.RuneStart(body[at]) {
			if !utf8.FullRune(body[at:]) {
				return body[:at]
			}
			break
		}
	}
	return body
}
