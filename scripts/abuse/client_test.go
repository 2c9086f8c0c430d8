package abuse

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/lifecycle"
)

type header = map[string]string

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
	return &client{url: s.url, dial: dialer, http: &http.Client{Transport: transport, Timeout: api.Timeout}}
}

func (c *client) do(ctx context.Context, method, path string, by header, body any) api.Answer {
	return api.SendBy(ctx, c.http, method, c.url+path, by, body)
}

func (c *client) post(ctx context.Context, path string, by header, body any) api.Answer {
	return c.do(ctx, http.MethodPost, path, by, body)
}

func (c *client) get(ctx context.Context, path string, by header) api.Answer {
	return c.do(ctx, http.MethodGet, path, by, nil)
}

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

// Size returns the announced length of the body, or -1.
func (p *inPieces) Size() int64 {
	if p.announced {
		return int64(len(p.rest))
	}
	return -1
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
