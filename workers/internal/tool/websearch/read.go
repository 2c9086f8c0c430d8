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

// errUnread means that the text of a page is not used. Errors that wrap it state the reason in
// tests and logs.
var errUnread = errors.New("page cannot be read")

// page is a page that was read or, if a result's page could not be read, the result's snippet. All
// texts are untrusted.
type page struct {
	// url is the address after redirects, which citations contain.
	url      string
	title    string
	language string // BCP 47; "" if unknown
	text     string
	// truncated is true if text of the page was dropped because of a limit.
	truncated bool
}

// reader reads pages. A Backend has one reader, so the reader's limits apply to all calls of the
// process. A reader is safe for concurrent use.
type reader struct {
	// client follows redirects and limits the size and the time of each response.
	client *http.Client
	// bodies limits the number of pages in memory. It is separate from slots, so that pages from
	// slow hosts do not delay the parsing of other pages.
	bodies chan struct{}
	// slots limits the number of pages that are parsed simultaneously. Parsing takes processor
	// time, and untrusted pages may be slow to parse.
	slots chan struct{}
}

// read reads the pages of all hits in parallel. It returns an entry for each hit. If a page cannot
// be read in time, its entry is nil. read returns after b.readTime at the latest; a page that is
// read later is discarded.
func (b *Backend) read(ctx context.Context, hits []hit) []*page {
	type got struct {
		at   int
		page *page
	}
	ctx, cancel := context.WithTimeout(ctx, b.readTime)
	defer cancel()
	answers := make(chan got, len(hits)) // the channel is buffered, so that goroutines that finish late do not block

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

// read reads one page. The error states why the page is not used; only tests and logs show it.
func (r *reader) read(ctx context.Context, address string) (p *page, err error) {
	defer func() {
		if cause := recover(); cause != nil { // untrusted data is parsed here, and a panic in a goroutine would end the process
			p, err = nil, fmt.Errorf("%w: reading the page: %v", errUnread, cause)
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

	final, ok := webURL(res.Request.URL.String()) // address of the page after redirects
	if !ok {
		return nil, fmt.Errorf("%w: its address cannot be cited", errUnread)
	}

	// The slot is taken only now, so a host that does not respond occupies no slot.
	if err := acquire(ctx, r.bodies); err != nil {
		return nil, err
	}
	defer func() { <-r.bodies }()

	// A page that is too large is read in part.
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	tooLarge := errors.Is(err, outbound.ErrTooLarge) || len(body) == maxPage
	if err != nil && !tooLarge {
		return nil, fmt.Errorf("fetching page: %w", err)
	}

	if err := acquire(ctx, r.slots); err != nil {
		return nil, err
	}
	defer func() { <-r.slots }()

	if p, err = parsePage(ctx, body, res.Header); err != nil {
		return nil, err
	}

	p.url = final.String()
	p.truncated = p.truncated || tooLarge
	return p, nil
}

// acquire takes a slot. It fails if ctx ends before a slot is free. The caller frees the slot by
// receiving from the channel.
func acquire(ctx context.Context, free chan<- struct{}) error {
	select {
	case free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a slot: %w", context.Cause(ctx))
	}
}

// readable returns an error if a response is not a page that may be read and stored. It examines
// only the status and the headers: the type must be HTML, XHTML or plain text, and robots rules
// must allow storing.
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
		return fmt.Errorf("%w: the site forbids storing it", errUnread)
	}
	return nil
}

// mediaType returns the media type without parameters, even if the parameters are malformed.
func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind, _, _ = strings.Cut(header.Get("Content-Type"), ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

// parsePage extracts the text of a page. It does not set the page's address. A page of plain text
// has no title. parsePage fails with errUnread if the page has no text.
func parsePage(ctx context.Context, body []byte, header http.Header) (*page, error) {
	text := decode(body, header.Get("Content-Type"))
	if mediaType(header) != "text/plain" {
		return mainText(ctx, text, header.Get("Content-Language"))
	}

	// Plain text has no navigation or advertisements to remove.
	p := &page{text: tidy(text)}
	p.finish(header.Get("Content-Language"))
	if p.text == "" {
		return nil, fmt.Errorf("%w: it has no text", errUnread)
	}
	return p, nil
}

// decode converts a page to UTF-8. A byte order mark, the header or a meta element may state the
// encoding. If none does, a page that is valid UTF-8 is UTF-8, and any other page is Windows-1252.
func decode(body []byte, contentType string) string {
	encoding, name, certain := charset.DetermineEncoding(body, contentType)
	// If no encoding is stated, DetermineEncoding examines only the first kilobyte, which often
	// contains only ASCII. So the whole page is checked here.
	if name == "utf-8" || name == "windows-1252" && !certain && utf8.Valid(trimPart(body)) {
		encoding = unicode.UTF8BOM
	}
	text, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		text = body
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // a text in UTF-16 may still begin with a byte order mark
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// trimPart removes an incomplete character from the end of body. A page that was read in part may
// end with an incomplete character.
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
