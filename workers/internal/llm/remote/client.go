package remote

import (
	"cmp"
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

// defaultResponseBytes is the maximum size of a response, far above the output limit of any model.
const defaultResponseBytes = 8 << 20

// connectionBuffer is the size of a connection's buffers in bytes. The buffers are small, because
// thousands of connections wait for short pieces of answers. Larger reads and writes bypass the
// buffers.
const connectionBuffer = 1 << 10

// Dial opens a connection. A nil Dial opens TCP connections.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Config configures the provider of one server. A zero field other than APIKey and BaseURL has its
// default value.
type Config struct {
	APIKey        string // may be empty if the server requires no key
	BaseURL       string // the server's address; empty means the provider's own service
	Limits        Limits
	ContextTokens int   // context size of every model in tokens; if 0, it depends on the model's name
	ResponseBytes int64 // maximum size of a response body in bytes
	// Dial opens connections; nil dials TCP. Tests use pipes.
	Dial Dial
}

// Server is a server that a provider calls. All models of the server share its connections, which
// Close frees.
type Server struct {
	Client        *http.Client
	Limits        Limits
	ContextTokens int    // the configured context size, or 0 if it depends on the model
	Official      bool   // whether this is the provider's own service
	Key           string // the API key, which is redacted in error messages
}

// Open returns the server and its address. The argument official is the address of the provider's
// own service. Open returns an error unless BaseURL is empty or an HTTP(S) address without
// credentials. It makes no request.
func (c Config) Open(official string) (s Server, base string, err error) {
	if base, err = baseURL(c.BaseURL, official); err != nil {
		return s, "", err
	}
	limits := c.Limits.withDefaults()
	return Server{newClient(c.Dial, limits, c.ResponseBytes), limits, c.ContextTokens, base == official, c.APIKey}, base, nil
}

// Close closes idle connections. Running calls continue.
func (s Server) Close() { s.Client.CloseIdleConnections() }

// newClient returns the HTTP client for one provider. All fields of limits must be set. If
// responseBytes is 0, the limit on a response is 8 MiB. The client does not follow redirects,
// because it would send the key and the prompt to another server.
func newClient(dial Dial, limits Limits, responseBytes int64) *http.Client {
	if responseBytes <= 0 {
		responseBytes = defaultResponseBytes
	}
	return &http.Client{
		Transport:     &capped{next: newTransport(dial, limits), limit: responseBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// capped is a transport that limits the size of responses, so that an endless response cannot fill
// the memory.
type capped struct {
	next  *http.Transport
	limit int64
}

// RoundTrip makes the request and limits its response body.
func (c *capped) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, c.limit)
	return res, nil
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (c *capped) CloseIdleConnections() { c.next.CloseIdleConnections() }

// newTransport returns a transport that uses no proxy and limits the number of idle connections.
func newTransport(dial Dial, limits Limits) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	// Opening a connection may take longer than the request that caused it, because another request
	// can use the connection later. Opening a connection therefore has its own time limit.
	limited := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limits.Connect)
		defer cancel()
		return dial(ctx, network, address)
	}
	return &http.Transport{
		Proxy:               nil, // a proxy from the environment would receive keys and prompts
		DialContext:         limited,
		TLSHandshakeTimeout: limits.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 128,
		WriteBufferSize:     connectionBuffer,
		ReadBufferSize:      connectionBuffer,
		IdleConnTimeout:     90 * time.Second,
	}
}

// baseURL validates an address from the settings and returns it with a slash at its end. If the
// address is empty, baseURL returns official.
func baseURL(raw, official string) (string, error) {
	if raw == "" {
		return official, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("parsing base URL: invalid URL") // omit the cause, because it contains the URL, which may contain credentials
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("checking base URL: want http(s)://host/path without credentials, query or fragment")
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u.String(), nil
}

// ModelName reports whether name may be the name of a model. Such a name is not empty and contains
// no spaces or control characters.
func ModelName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// CheckStream returns an error if a response has another status than 200, or the content type of a
// web page or of JSON. If the configured address is wrong, its server may respond with a redirect
// or a web page.
func CheckStream(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && media != "text/html" && media != "application/json" {
		return nil
	}
	e := llm.NewError(llm.KindBadResponse, fmt.Errorf("unexpected response with status %d and content type %q", res.StatusCode, media))
	e.Retryable = false // a retry does not correct the address
	e.Provider = newRefusal(res.StatusCode, "The response is not an event stream, but "+cmp.Or(media, "of an unknown type")+".", "")
	return e
}
