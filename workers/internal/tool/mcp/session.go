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

var errAnswer = errors.New("the answer is not an MCP message")

const (
	askTimeout  = 15 * time.Second // of each request but a call
	callTimeout = 2 * time.Minute
)

// session is a session with one server, for one purpose.
type session struct {
	*sdk.ClientSession

	wire  *wire
	hide  *redact.Redactor
	close func()
}

// open begins a session, whose answers are read no longer than ctx lasts; protocol is the version that the server is
// known to speak, "" when it is not known.
func (b *Backend) open(ctx context.Context, req tool.Request, server domain.MCPServer, protocol string) (*session, error) {
	at, err := url.Parse(server.URL)
	if err != nil { // which quotes the address
		return nil, &tool.Error{Message: "The address of the server is not valid.", NotSent: true, Err: errors.New("reading address")}
	}
	headers, err := b.headers(req, server)
	if err != nil {
		return nil, err
	}
	origin := originFor(at)
	kept := b.client.HTTP(outbound.Options{Timeout: askTimeout, Origin: origin})
	fresh := b.client.HTTP(outbound.Options{Timeout: callTimeout, Origin: origin, Fresh: true})
	w := &wire{over: ctx, origin: origin, headers: headers, kept: kept.Transport, fresh: fresh.Transport}
	hide := secretsFor(server, headers)
	// Empty capabilities: neither models nor people nor files are offered. What the server asks for in an answer is not
	// given by calling once more, which the library would do.
	client := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	connection, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:             server.URL,
		HTTPClient:           &http.Client{Transport: w, CheckRedirect: stay},
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
	}, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		kept.CloseIdleConnections()
		return nil, w.explain(ctx, err, hide)
	}
	return &session{ClientSession: connection, wire: w, hide: hide, close: func() {
		go func() { // nobody waits for a farewell; the library bounds it
			_ = guard(ctx, connection.Close)
			kept.CloseIdleConnections()
		}()
	}}, nil
}

// secretsFor knows what a server is told and the model must not be.
func secretsFor(server domain.MCPServer, headers map[string]string) *redact.Redactor {
	var secrets redact.Secrets
	secrets.Address(server.URL)
	for name, value := range headers {
		secrets.Header(http.CanonicalHeaderKey(name), value)
	}
	return secrets.Redactor()
}

// stay keeps a client from following redirects: they are answers.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// headers opens a server's header values.
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

// originFor names scheme, host and always the port of an address.
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

// explain finds words for a session that did not come about or broke; nothing of a call has been sent.
func (w *wire) explain(ctx context.Context, err error, hide *redact.Redactor) error {
	if ctx.Err() != nil {
		return fmt.Errorf("speaking with server: %w", context.Cause(ctx))
	}
	trouble := w.lastTrouble()
	told := &tool.Error{Message: "The server violates the MCP protocol.", NotSent: true, Err: causeFor(trouble, err, hide)}
	var status statusError
	switch {
	case errors.As(trouble, &status):
		told.Message = "The server " + status.words() + "."
	case trouble != nil:
		told.Message = outbound.AsError(trouble).Message
	}
	return told
}

// causeFor keeps of what went wrong what no server has worded and no address is quoted in: the library's errors hold
// both. trouble is HTTP's, err the library's.
func causeFor(trouble, err error, hide *redact.Redactor) error {
	var status statusError
	var answered *jsonrpc.Error
	switch {
	case errors.As(trouble, &status) && errors.As(err, &answered):
		return fmt.Errorf("JSON-RPC error %d: %w", answered.Code, status)
	case errors.As(trouble, &status):
		return status
	case trouble != nil:
		told := outbound.AsError(trouble)
		return hide.Err(cmp.Or(told.Err, error(told)))
	case errors.As(err, &answered):
		return fmt.Errorf("JSON-RPC error %d", answered.Code)
	default:
		return errAnswer
	}
}

// words says what a status means for whoever set the server up.
func (s statusError) words() string {
	switch {
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return fmt.Sprintf("rejected the credentials (status %d)", int(s))
	case s < http.StatusBadRequest:
		return fmt.Sprintf("redirects (status %d), which is not supported", int(s))
	default:
		return fmt.Sprintf("answered with status %d", int(s))
	}
}
