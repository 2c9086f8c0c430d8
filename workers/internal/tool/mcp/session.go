package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// errAnswer replaces errors of the MCP library, whose texts may quote the server.
var errAnswer = errors.New("the response is not an MCP message")

const (
	askTimeout = 15 * time.Second // time limit of each request except a tool call
	// Time limit of a tool call.
	callTimeout = 2 * time.Minute
)

// session is a session with one server, for one listing or one call. It is used by one goroutine.
type session struct {
	*sdk.ClientSession

	// wire is the session's HTTP transport, and redactor removes the secrets that are sent to the
	// server.
	wire     *wire
	redactor *redact.Redactor
	// close ends the session without waiting for the server.
	close func()
}

// open starts a session. When ctx ends, the requests of the session end, even while a response is
// read. protocol is the version that the server used before, or "" if it is unknown. The caller
// must call close. An error is a *tool.Error with NotSent set, or the cause of ctx.
func (b *Backend) open(ctx context.Context, req tool.Request, server domain.MCPServer, protocol string) (*session, error) {
	at, err := url.Parse(server.URL)
	if err != nil { // the error is not wrapped, because it would quote the address
		return nil, &tool.Error{Message: "The address of the server is not valid.", NotSent: true, Err: errors.New("reading address")}
	}

	headers, err := b.headers(req, server)
	if err != nil {
		return nil, err
	}

	// There are two transports: one reuses connections for the handshake and lists, and one uses a
	// new connection for the call.
	origin := originFor(at)
	kept := b.client.HTTP(outbound.Options{Timeout: askTimeout, Origin: origin})
	fresh := b.client.HTTP(outbound.Options{Timeout: callTimeout, Origin: origin, Fresh: true})
	w := &wire{sessionCtx: ctx, origin: origin, headers: headers, kept: kept.Transport, fresh: fresh.Transport}
	redactor := secretsFor(server, headers)
	// The capabilities are empty, so the server cannot use models, people or files of this client.
	// If the server requested one of these, the library would answer with a second HTTP request.
	client := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})

	connection, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:   server.URL,
		HTTPClient: &http.Client{Transport: w, CheckRedirect: stay},
		// The library must not repeat any request, because a repeated call could have its side
		// effect twice.
		MaxRetries: -1,
		// Disable the stream from the server. The server could use it only for notifications, which
		// this client ignores.
		DisableStandaloneSSE: true,
	}, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		kept.CloseIdleConnections()
		return nil, w.explain(ctx, err, redactor)
	}
	return &session{ClientSession: connection, wire: w, redactor: redactor, close: func() {
		go func() { // close the session in the background; the library limits the time that this takes
			_ = guard(ctx, connection.Close)
			kept.CloseIdleConnections()
		}()
	}}, nil
}

// secretsFor returns a redactor for the secrets that are sent to a server: its header values and
// the secrets in its address. The redactor removes these secrets from everything that the model
// sees.
func secretsFor(server domain.MCPServer, headers map[string]string) *redact.Redactor {
	var secrets redact.Secrets
	secrets.Address(server.URL)
	for name, value := range headers {
		secrets.Header(http.CanonicalHeaderKey(name), value)
	}
	return secrets.Redactor()
}

// stay makes an HTTP client return redirects as responses instead of following them.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// headers decrypts a server's header values. An error does not contain the values.
func (b *Backend) headers(req tool.Request, server domain.MCPServer) (map[string]string, error) {
	opened := make(map[string]string, len(server.Headers))
	for name, sealed := range server.Headers {
		value, err := b.unseal(sealed, req.OrganizationID, req.TargetID)
		if err != nil {
			return nil, tool.Unopened(fmt.Errorf("opening header: %w", err))
		}
		opened[name] = value
	}
	return opened, nil
}

// originFor returns the scheme, host and explicit port of an address.
func originFor(at *url.URL) string {
	port := at.Port()
	switch {
	case port != "":
	case at.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return at.Scheme + "://" + net.JoinHostPort(at.Hostname(), port)
}

// explain converts an error of a session in which no tool was called, so no side effect can have
// happened. The message is public.
func (w *wire) explain(ctx context.Context, err error, redactor *redact.Redactor) error {
	if ctx.Err() != nil {
		return fmt.Errorf("communicating with server: %w", context.Cause(ctx))
	}

	httpErr := w.lastHTTPErr()
	public := &tool.Error{Message: "The server violates the MCP protocol.", NotSent: true, Err: causeFor(httpErr, err, redactor)}
	var status statusError
	switch {
	// The HTTP status explains a failure best, because wrong credentials cause many failures.
	case errors.As(httpErr, &status):
		public.Message = "The server " + status.words() + "."
	case httpErr != nil:
		public.Message = outbound.AsError(httpErr).Message
	}
	return public
}

// causeFor returns an error that may be logged. httpErr is the HTTP error, if any. err is the
// library's error; its text may contain an address and text of the server, which are left out.
func causeFor(httpErr, err error, redactor *redact.Redactor) error {
	var status statusError
	var rpcErr *jsonrpc.Error
	switch {
	case errors.As(httpErr, &status) && errors.As(err, &rpcErr):
		return fmt.Errorf("JSON-RPC error %d: %w", rpcErr.Code, status)
	case errors.As(httpErr, &status):
		return status
	case httpErr != nil:
		public := outbound.AsError(httpErr)
		return redactor.Err(cmp.Or(public.Err, error(public)))
	case errors.As(err, &rpcErr):
		return fmt.Errorf("JSON-RPC error %d", rpcErr.Code)
	default:
		return errAnswer
	}
}

// words describes a status for the person who configured the server.
func (s statusError) words() string {
	switch {
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return fmt.Sprintf("rejected the credentials (status %d)", int(s))
	case s < http.StatusBadRequest:
		return fmt.Sprintf("responded with a redirect (status %d), which is not supported", int(s))
	default:
		return fmt.Sprintf("responded with status %d", int(s))
	}
}
