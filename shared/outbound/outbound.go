// Package outbound is the only client for requests to other servers: pages, endpoints, MCP servers,
// webhooks.
//
//	request ─► address as written ─► name ─► every address it resolves to ─► connection ─► capped, decoded answer
//	           scheme, host, origin          checked as the socket is made
//
// Addresses are checked when a connection is made, not earlier, because a name may resolve to
// different addresses each time. Each redirect is checked in the same way. By default, only ports
// 80 and 443 on the public internet are allowed. The operator may allow more destinations
// (Config.Allow, Options.Trusted). The port of an origin that an organization has listed
// (Options.Origin) is allowed, too.
//
// A process has one Client, and one HTTP client for each purpose. URLs come from models and
// organizations and are untrusted, and so are the responses. The package protects the network of
// the service; it does not decide which agent may call which server.
package outbound

import (
	"net"
	"net/http"
	"time"
)

// Config defines the destinations that a process may reach in addition to the public internet.
type Config struct {
	// Allow is the value of OUTBOUND_ALLOW. An entry "host:port" allows this host and port at any
	// address to which the name resolves. A CIDR network allows its addresses, but only at the
	// ports that are allowed everywhere.
	Allow []string
	// OwnPorts are the ports of this service and its servers. They are forbidden on this machine's
	// addresses and on all non-public addresses, unless Allow contains exactly this host:port.
	OwnPorts []int
	Resolver *net.Resolver // nil: the system's
	// Around, if set, wraps the transport of each client, for example to measure requests.
	Around func(http.RoundTripper) http.RoundTripper
}

// Options are the settings of an HTTP client for one purpose.
type Options struct {
	Timeout   time.Duration // time limit for the whole exchange with all redirects, until the last byte of the body; 30 s by default
	MaxBytes  int64         // maximum size of the decoded body, 2 MiB by default; reading more returns ErrTooLarge
	Redirects int           // maximum number of redirects to follow, at most 3; 0: the redirect is the response
	Origin    string        // "https://host:port": all requests and redirects must stay at this origin, whose port is allowed
	Trusted   string        // "host:port" set by the operator: allowed even at a private address
	Fresh     bool          // open a new connection per request; net/http retries requests only on reused connections
}

// Defaults and limits of Options.
const (
	defaultTimeout  = 30 * time.Second
	defaultMaxBytes = 2 << 20
	maxRedirects    = 3
	dialTimeout     = 10 * time.Second
	headerBytes     = 64 << 10 // maximum size of a response's header
)

// Client creates HTTP clients under one configuration. It is safe for concurrent use.
type Client struct {
	guard    *guard
	resolver *net.Resolver
	around   func(http.RoundTripper) http.RoundTripper
	tune     func(*http.Transport) // for tests that need their own certificates
}

// New returns a Client. It returns an error if an entry in Allow is invalid.
func New(cfg Config) (*Client, error) {
	g, err := newGuard(cfg.Allow, cfg.OwnPorts)
	if err != nil {
		return nil, err
	}
	return &Client{guard: g, resolver: cfg.Resolver, around: cfg.Around}, nil
}

// HTTP returns an HTTP client for one purpose. It shares no connections with other HTTP clients,
// which may have different permissions. Keep the HTTP client for as long as its connections should
// stay open. Its errors contain an *Error: see AsError.
func (c *Client) HTTP(o Options) *http.Client {
	t := newTransport(c, o)
	if c.around == nil {
		return &http.Client{Transport: t, CheckRedirect: t.redirect}
	}
	return &http.Client{Transport: c.around(t), CheckRedirect: t.redirect}
}
