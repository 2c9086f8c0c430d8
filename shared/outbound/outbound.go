// Package outbound is the one client for everything that lies outside: pages, endpoints, MCP servers, webhooks.
//
//	request ─► address as written ─► name ─► every address it resolves to ─► connection ─► capped, decoded answer
//	           scheme, host, origin          checked as the socket is made
//
// An address is judged when it is dialled, not before: what a name resolves to may change between two questions. Each
// redirect passes the same way again. Only the public internet can be reached, at ports 80 and 443, but for what the
// operator allows (Config.Allow, Options.Trusted) and the port of the origin that an organization listed (Options.Origin).
package outbound

import (
	"net"
	"net/http"
	"time"
)

// Config is what a process may reach besides the public internet.
type Config struct {
	// Allow is OUTBOUND_ALLOW. "host:port" opens that one, wherever the name points to; a CIDR opens addresses, at
	// the ports that are open anyway.
	Allow []string
	// OwnPorts are those of this service and its servers: refused on this machine's addresses and on all that are not
	// public, unless Allow has the very host:port.
	OwnPorts []int
	Resolver *net.Resolver // nil: the system's
	// Around, when it is set, is put around what sends each request, such as to watch it.
	Around func(http.RoundTripper) http.RoundTripper
}

// Options are what one use of the client asks for.
type Options struct {
	Timeout   time.Duration // of the whole exchange with all redirects, up to the body's last byte; default 30 s
	MaxBytes  int64         // of the decompressed body, default 2 MiB; more is ErrTooLarge, when the body is read
	Redirects int           // followed at most; 0 none: the redirect is the answer; never more than 3
	Origin    string        // "https://host:port": every request and redirect stays there, and its port is allowed
	Trusted   string        // "host:port" that the operator has set: allowed although private
	Fresh     bool          // one connection for each request, so that net/http never sends anything twice
}

const (
	defaultTimeout  = 30 * time.Second
	defaultMaxBytes = 2 << 20
	maxRedirects    = 3
	dialTimeout     = 10 * time.Second
	headerBytes     = 64 << 10 // of an answer
)

// Client makes HTTP clients under one configuration; safe for concurrent use.
type Client struct {
	guard    *guard
	resolver *net.Resolver
	around   func(http.RoundTripper) http.RoundTripper
	tune     func(*http.Transport) // of tests that need certificates of their own
}

// New makes a Client; a malformed entry of Allow is an error.
func New(cfg Config) (*Client, error) {
	g, err := newGuard(cfg.Allow, cfg.OwnPorts)
	if err != nil {
		return nil, err
	}
	return &Client{guard: g, resolver: cfg.Resolver, around: cfg.Around}, nil
}

// HTTP gives an HTTP client for one use. It has connections of its own, so that what one use may reach is
// never reached by another; keep it as long as they shall be kept open. Its errors hold an *Error: see AsError.
func (c *Client) HTTP(o Options) *http.Client {
	t := newTransport(c, o)
	if c.around == nil {
		return &http.Client{Transport: t, CheckRedirect: t.redirect}
	}
	return &http.Client{Transport: c.around(t), CheckRedirect: t.redirect}
}
