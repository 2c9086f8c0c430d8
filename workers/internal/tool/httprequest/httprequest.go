// Package httprequest calls the HTTP endpoints that an organization has configured for an agent.
// Each endpoint is a separate tool.
//
// The agent's configuration fixes the host, the method and the headers; a model supplies only
// arguments. Secrets are added when the request is sent, and removed from the response. A request
// with a side effect is sent at most once, over a new connection: redirects are not followed, and
// there is no automatic retry.
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
	timeout = 45 * time.Second // shorter than a call's time limit, so that the outcome is known before the limit ends the call
	maxBody = 1 << 20          // bytes of a response that are read
	// Maximum number of redirects for requests without a side effect.
	redirects = 3
)

// Backend executes calls of endpoints. It is safe for concurrent use. Its client refuses addresses
// that the installation does not permit.
type Backend struct {
	client *outbound.Client
	open   func(sealed, org, target string) (string, error)
}

// New creates a backend. The argument open decrypts a secret that belongs to an agent.
func New(client *outbound.Client, open func(sealed, org, target string) (string, error)) *Backend {
	return &Backend{client: client, open: open}
}

// Kind returns the kind httpRequest.
func (b *Backend) Kind() string { return contract.ToolHTTPRequest }

// Call sends the request of an endpoint and returns the response. A response with any status is a
// result, with one exception: after status 502 or 504, the outcome of a request with a side effect
// is unknown.
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
		return tool.Result{}, failed(ctx, err, p.redactor)
	}
	defer func() { _ = resp.Body.Close() }()

	// The response of a gateway does not show whether the server has executed the request.
	if req.Sending != nil && sideEffect(e) != domain.SideEffectNone && lostServer(resp.StatusCode) {
		return tool.Result{}, fmt.Errorf("calling endpoint: a gateway responded with status %d", resp.StatusCode)
	}

	body, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() != nil && req.Sending == nil {
		return tool.Result{}, ctx.Err() // the ledger has no entry, so the call can be repeated
	}
	// The status shows that the server has handled the request, so the outcome is known even if the
	// body is incomplete.
	return render(ctx, resp, body, err, p.redactor)
}

// lostServer reports whether a status means that a gateway received no response from the server.
func lostServer(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// endpointFor returns the endpoint whose tool has the given name. It returns false if the tool is
// disabled or if the agent has no such endpoint.
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

// failed converts the error of a request that got no response to a *tool.Error. If the call's
// context has ended, failed returns the context's error instead. A request that was stopped because
// the call is stale still results in a *tool.Error.
func failed(ctx context.Context, err error, redactor *redact.Redactor) error {
	public := outbound.AsError(err)
	if ctx.Err() != nil && !errors.Is(public.Err, tool.ErrStale) {
		return fmt.Errorf("calling endpoint: %w", ctx.Err())
	}
	return &tool.Error{Message: public.Message, NotSent: public.NotSent, Err: redactor.Err(public.Err)}
}

// sideEffect returns the configured side effect of an endpoint. The default is unsafe, because an
// unknown request must not be repeated.
func sideEffect(e domain.Endpoint) domain.SideEffect {
	if e.SideEffect == "" {
		return domain.SideEffectUnsafe
	}
	return e.SideEffect
}

// reads reports whether requests with this method only read data.
func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// inQuery reports whether arguments are sent in the query instead of the body. Arguments in the
// path are not affected.
func inQuery(method string) bool { return reads(method) || method == http.MethodDelete }
