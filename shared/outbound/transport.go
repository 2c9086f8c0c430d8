package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"time"
)

// transport sends single requests: the first request in an exchange, and its redirects. Each HTTP
// client has its own transport. A transport is safe for concurrent use.
type transport struct {
	client     *Client
	options    Options
	base       *http.Transport
	permit     permit
	origin     *target
	optionsErr error // the options are invalid; nothing is sent
}

// newTransport applies the defaults of Options. If an option is invalid, it stores the error, which
// the method admit then returns for each request.
func newTransport(c *Client, o Options) *transport {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}

	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}

	o.Redirects = min(max(o.Redirects, 0), maxRedirects)
	t := &transport{client: c, options: o}
	t.base = &http.Transport{
		Proxy:                  nil, // a proxy from the environment would bypass the address check
		DialContext:            t.dial,
		DialTLSContext:         t.dialTLS,
		DisableCompression:     true, // body decodes, within its limits
		DisableKeepAlives:      o.Fresh,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: headerBytes,
		Protocols:              new(http.Protocols),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}

	// Only HTTP/1 is used, because HTTP/2 retries requests automatically and shares connections
	// between them.
	t.base.Protocols.SetHTTP1(true)
	if c.tune != nil {
		c.tune(t.base)
	}

	// If an option is invalid, every request fails. Therefore newTransport needs no error result.
	if o.Trusted != "" {
		t.permit.trusted, t.optionsErr = hostPortFor(o.Trusted)
	}

	if o.Origin != "" {
		origin, err := originFor(o.Origin)
		t.origin, t.permit.port = &origin, origin.port
		t.optionsErr = errors.Join(t.optionsErr, err)
	}

	return t
}

// RoundTrip sends one request, as http.RoundTripper requires. Its errors are of type *Error.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := t.admit(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as every RoundTripper must
		}
		return nil, describe(req.Context(), err, req.Response == nil)
	}

	// The sending state records whether a byte of the request was sent. Callers whose requests must
	// not be repeated need this information.
	ctx, cancel := context.WithDeadline(req.Context(), t.deadline(req))
	w := &sendState{ctx: ctx, hook: sendingHook(ctx)}
	resp, err := t.base.RoundTrip(t.outgoingRequest(httptrace.WithClientTrace(ctx, w.trace()), req, to))
	if err != nil {
		defer cancel() // called only on return, because describe must first check whether ctx has ended

		// Connecting may still be in progress. After abandon, the connection can no longer send the
		// request.
		notSent, hookErr := w.abandon()
		if hookErr != nil {
			return nil, &Error{Message: "The request was not sent.", NotSent: true, Err: hookErr}
		}
		return nil, describe(ctx, err, notSent && req.Response == nil)
	}

	resp.Request = req.WithContext(ctx) // a redirect then gets the same deadline
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		cancel()
		return nil, &Error{Message: "The host switched to another protocol, which is not supported."}
	}

	// The context must last until the body is closed. Closing the body cancels the context.
	newBody(ctx, cancel, resp, t.options.MaxBytes)
	return resp, nil
}

// CloseIdleConnections is called by the method of http.Client that has the same name.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// admit checks everything that is visible in a request before its host is resolved.
func (t *transport) admit(req *http.Request) (target, error) {
	if t.optionsErr != nil {
		return target{}, &Error{Message: "The URL is not valid.", Err: errors.Join(ErrRefused, t.optionsErr)}
	}

	to, err := targetFor(req.URL)
	switch {
	case err != nil:
		return to, err
	case req.Host != "" && req.Host != req.URL.Host:
		return to, refuse("The Host header differs from the host in the URL.")
	case t.origin != nil && to != *t.origin:
		return to, refuse("The URL leads to a host other than the configured host.")
	}

	return to, t.client.guard.checkPort(t.permit, to)
}

// deadline returns the time by which the response's body must be read. A redirect does not extend
// this time.
func (t *transport) deadline(req *http.Request) time.Time {
	at := time.Now().Add(t.options.Timeout)
	// In a redirected request, the field Response is the response that contained the redirect.
	if req.Response != nil && req.Response.Request != nil {
		if first, ok := req.Response.Request.Context().Deadline(); ok && first.Before(at) {
			return first
		}
	}
	return at
}

// outgoingRequest returns the request to send: a copy of req with the canonical host and the
// headers that this package sets.
func (t *transport) outgoingRequest(ctx context.Context, req *http.Request, to target) *http.Request {
	out := req.Clone(ctx)

	// The URL gets the canonical host, so that the dialed host is the host that was checked.
	out.URL.Host = to.urlHost()
	out.Host = ""
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "Parley")
	}

	encodings := "gzip, deflate"
	if strings.Contains(out.Header.Get("Accept"), "text/event-stream") {
		encodings = "identity" // compression would delay single events
	}
	out.Header.Set("Accept-Encoding", encodings)
	return out
}

// redirect decides whether a redirect is followed. It is used as http.Client's CheckRedirect. The
// argument via contains the earlier requests, oldest first. redirect removes from the request next
// the headers that the new server must not see.
func (t *transport) redirect(next *http.Request, via []*http.Request) error {
	// If redirects are not followed, the caller gets the redirect itself and may examine its
	// Location.
	if t.options.Redirects == 0 {
		return http.ErrUseLastResponse
	}

	if len(via) > t.options.Redirects {
		return refuse("The URL redirects too many times.")
	}

	next.Header.Del("Referer") // an address may contain a secret

	// Requests to the same origin keep their headers. Another origin must not see credentials.
	if !leftOrigin(next, via) {
		return nil
	}
	if next.Method != http.MethodGet && next.Method != http.MethodHead || next.Body != nil && next.Body != http.NoBody {
		return refuse("The URL redirects a request with a body to another host, which is not allowed.")
	}

	for name := range next.Header {
		switch name {
		case "Accept", "Accept-Language", "User-Agent", "Content-Type":
		default: // any other header may be a credential
			next.Header.Del(name)
		}
	}

	return nil
}

// dial connects to a host under the guard, which checks each resolved address before the
// connection is made.
func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := t.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// connect resolves a host and connects to it. The guard checks every address before the
// connection is made.
func (t *transport) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errHost
	}

	// The dialer calls Control for each address, after the name was resolved and before the
	// connection is made. So the checked address is the one that is used.
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: t.client.resolver,
		Control: func(network, address string, _ syscall.RawConn) error {
			return t.client.guard.check(t.permit, host, network, address)
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// dialTLS returns after the handshake, so that everything written later belongs to the request. The
// handshake takes at most dialTimeout.
func (t *transport) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := t.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}

	// If ServerName is set, the handshake verifies the host's certificate.
	cfg := t.base.TLSClientConfig.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()

	secure := tls.Client(raw, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}

	return &conn{Conn: secure}, nil
}

// urlHost returns the target in the form of a URL's host, without the scheme's default port.
func (t target) urlHost() string {
	if t.port != defaultPort(t.scheme) {
		return t.hostPort()
	}
	if strings.Contains(t.host, ":") {
		return "[" + t.host + "]"
	}
	return t.host
}
