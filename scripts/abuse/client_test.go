package abuse

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

// requestTimeout bounds the duration of each request.
const requestTimeout = 80 * time.Second

type header map[string]string

// client sends requests from one client address over persistent connections.
type client struct {
	url  string
	dial *net.Dialer
	http *http.Client
}

// from returns a client that connects from the given loopback address.
func (s *service) from(t *testing.T, address string) *client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{url: s.url, dial: dialer, http: &http.Client{Transport: transport, Timeout: requestTimeout}}
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // the error, if the connection broke before a response arrived
}

// do sends a request. It encodes the body as JSON unless the body is nil, bytes or a reader.
func (c *client) do(ctx context.Context, method, path string, by header, body any) answer {
	var payload io.Reader
	switch body := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(body)
	case io.Reader:
		payload = body
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		payload = bytes.NewReader(raw)
	}

	req, err := http.NewRequestWithContext(ctx, method, c.url+path, payload)
	if err != nil {
		return answer{err: err}
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p, ok := body.(*inPieces); ok && p.announced {
		req.ContentLength = int64(len(p.rest))
	}

	for name, value := range by {
		req.Header.Set(name, value)
	}

	res, err := c.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: raw, err: err}
}

func (c *client) post(ctx context.Context, path string, by header, body any) answer {
	return c.do(ctx, http.MethodPost, path, by, body)
}

func (c *client) get(ctx context.Context, path string, by header) answer {
	return c.do(ctx, http.MethodGet, path, by, nil)
}

// want fails the test unless the response has the given status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.err != nil {
		t.Fatalf("no response: %v", a.err)
	}
	if a.status != status {
		t.Fatalf("status = %d, want %d: %s", a.status, status, a.shown())
	}
	return a
}

func (a answer) into(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("response %d is not JSON: %v: %s", a.status, err, a.shown())
	}
}

// shown returns the beginning of the body, for error messages.
func (a answer) shown() []byte { return a.body[:min(len(a.body), 500)] }

// inPieces is a request body that is sent in pieces, with a pause before each piece except the
// first.
type inPieces struct {
	ctx   context.Context //nolint:containedctx // the context of the body's request
	rest  []byte
	piece int
	pause time.Duration

	announced bool // whether the Content-Length header is sent
	left      int  // number of unread bytes in the current piece
	begun     bool
}

// Read returns at most the remainder of the current piece. It pauses before each piece except the
// first.
func (p *inPieces) Read(into []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	if p.left == 0 {
		if p.begun {
			_ = lifecycle.Sleep(p.ctx, p.pause)
		}
		p.left, p.begun = p.piece, true
	}
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}

	n := copy(into, p.rest[:min(p.left, len(p.rest))])
	p.rest = p.rest[n:]
	p.left -= n
	return n, nil
}
