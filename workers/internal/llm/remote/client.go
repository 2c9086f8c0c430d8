package remote

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/workers/internal/llm"
)

// defaultResponseBytes bounds one answer on the wire: far above any model's output limit, far below harm.
const defaultResponseBytes = 8 << 20

// Dial opens connections; nil dials TCP.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient makes the client of one provider; limits are complete, and responseBytes of 0 means 8 MiB. It follows no
// redirect, which would take key and prompt along.
func NewClient(dial Dial, limits Limits, responseBytes int64) *http.Client {
	if responseBytes <= 0 {
		responseBytes = defaultResponseBytes
	}
	return &http.Client{
		Transport:     &capped{next: newTransport(dial, limits), limit: responseBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// capped limits how much of a response is read: an endless one must not fill the memory.
type capped struct {
	next  *http.Transport
	limit int64
}

// RoundTrip makes the request and puts the limit on its body.
func (c *capped) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, c.limit)
	return res, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (c *capped) CloseIdleConnections() { c.next.CloseIdleConnections() }

func newTransport(dial Dial, limits Limits) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	// A dial outlives the request that it was made for, so that another can use the connection:
	// it needs a limit of its own.
	limited := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limits.Connect)
		defer cancel()
		return dial(ctx, network, address)
	}
	return &http.Transport{
		Proxy:               nil, // none from the environment: it would see keys and prompts
		DialContext:         limited,
		TLSHandshakeTimeout: limits.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     90 * time.Second,
	}
}

// BaseURL checks an address from the settings and ends it with a slash; empty is the provider's official one.
func BaseURL(raw, official string) (string, error) {
	if raw == "" {
		return official, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("parsing base URL: not a URL") // the cause would repeat it, credentials included
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("checking base URL: want http(s)://host/path without credentials, query or fragment")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.String(), nil
}

// ModelName reports whether a name can be one at a server.
func ModelName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// CheckStream refuses answers that are no event stream: a redirect, or the web page of a wrong address.
func CheckStream(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media != "text/html" && media != "application/json" {
		return nil
	}
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf("status %d with content type %q", res.StatusCode, media))
	e.Retryable = false // an address that is wrong stays wrong
	return e
}
