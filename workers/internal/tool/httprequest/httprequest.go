// Package httprequest calls the HTTP endpoints that an organization has listed for an agent: each is a tool of its own.
//
// Which host is asked, with which method and headers, stands in the agent's configuration; a model only fills in
// arguments. Secrets are added as the request leaves, and taken out of whatever comes back. A request with a side
// effect is sent once, over a connection of its own: it follows no redirect, and nothing sends it again by itself.
package httprequest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

const (
	timeout   = 45 * time.Second // less than a call may take, so that its end is known
	maxBody   = 1 << 20          // that is read of an answer
	redirects = 3
)

// Backend carries calls of endpoints out; safe for concurrent use.
type Backend struct {
	client *outbound.Client
	open   func(sealed, org, target string) (string, error)
}

// New makes a backend. open gives the plain text of a secret of an organization's agent.
func New(client *outbound.Client, open func(sealed, org, target string) (string, error)) *Backend {
	return &Backend{client: client, open: open}
}

// Kind says which calls are for this backend.
func (b *Backend) Kind() string { return contract.ToolHTTPRequest }

// Call sends the request of an endpoint and gives its answer. An answer of any status is a result, but for those by which
// a gateway says that it lost the server: behind a side effect, nobody knows then whether it happened.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	e, found := endpointFor(req.Config.Tools.HTTPRequest, req.Call.Name)
	if !found {
		return tool.Result{}, &tool.Error{Message: "The agent has no endpoint with this name.", NotSent: true}
	}
	p, err := b.prepare(ctx, e, req)
	if err != nil {
		return tool.Result{}, err
	}
	client := b.client.HTTP(p.options)
	resp, err := client.Do(p.request)
	if err != nil {
		return tool.Result{}, failed(ctx, err, p.hide)
	}
	defer func() { _ = resp.Body.Close() }()
	if req.Sending != nil && sideEffect(e) != domain.SideEffectNone && lostServer(resp.StatusCode) {
		return tool.Result{}, fmt.Errorf("calling endpoint: a gateway answered %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() != nil && req.Sending == nil {
		return tool.Result{}, ctx.Err() // it may be asked again
	}
	// Whoever answered has carried the request out or not, and said so by the status: a body that breaks off
	// afterwards leaves nothing unknown.
	return render(ctx, resp, body, err, p.hide)
}

// lostServer reports whether an answer says no more than that some gateway had none.
func lostServer(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// endpointFor finds an endpoint by the name of its tool.
func endpointFor(t *domain.HTTPRequestTool, name string) (domain.Endpoint, bool) {
	if t == nil || !t.Enabled {
		return domain.Endpoint{}, false
	}
	at := slices.IndexFunc(t.Endpoints, func(e domain.Endpoint) bool { return e.Name == name })
	if at < 0 {
		return domain.Endpoint{}, false
	}
	return t.Endpoints[at], true
}

// failed is a request without an answer.
func failed(ctx context.Context, err error, hide *redact.Redactor) error {
	told := outbound.AsError(err)
	if ctx.Err() != nil && !errors.Is(told.Err, tool.ErrStale) {
		return fmt.Errorf("calling endpoint: %w", ctx.Err())
	}
	return &tool.Error{Message: told.Message, NotSent: told.NotSent, Err: hide.Err(told.Err)}
}

// sideEffect is what a call of an endpoint does; whoever does not say is not believed to do nothing.
func sideEffect(e domain.Endpoint) domain.SideEffect {
	if e.SideEffect == "" {
		return domain.SideEffectUnsafe
	}
	return e.SideEffect
}

// reads reports whether a method asks for something, with arguments in the address.
func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// inQuery reports whether the arguments that the address does not use go into its query.
func inQuery(method string) bool { return reads(method) || method == http.MethodDelete }
