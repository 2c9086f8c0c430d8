package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/shared/truncate"
	"parley/workers/internal/tool"
)

// Backend lists and calls the tools of remote MCP servers. It is safe for concurrent use. Each tool
// worker has one Backend.
type Backend struct {
	client *outbound.Client
	unseal func(sealed, org, target string) (string, error)
	lists  *cache
}

// New creates a Backend. unseal decrypts a header value that belongs to an agent. Decrypted values
// are kept only for the time of a session.
func New(client *outbound.Client, unseal func(sealed, org, target string) (string, error)) *Backend {
	return &Backend{client: client, unseal: unseal, lists: newCache()}
}

// Kind returns the kind mcp.
func (b *Backend) Kind() string { return contract.ToolMCP }

// Call finds the server and the tool for the name in a call, and calls the tool once. A failure
// that the tool reports is a *tool.Error with the tool's output. The field NotSent of a *tool.Error
// is set if the call certainly had no effect.
//
// If an error neither sets NotSent nor contains the server's response, the tool may have been
// executed. The effect ledger then decides what happens; see package toolserver.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(req.Call.Arguments, &arguments); err != nil || arguments == nil {
		return tool.Result{}, &tool.Error{Message: "The arguments must be an object.", NotSent: true, Err: err}
	}
	ctx, end := context.WithCancel(ctx)
	defer end() // also ends a response that the server is still sending

	// The server and the tool's name on the server come from the servers' lists and never from the
	// model.
	found, err := b.find(ctx, req)
	if err != nil {
		return tool.Result{}, err
	}

	// The session requests the protocol version that the server used for its list.
	s, err := b.open(ctx, req, found.server, found.protocol)
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()
	if found.tool.headers { // the library needs the tool's definition in this session
		err = s.pages(ctx, func(t *sdk.Tool) bool { return t.Name != found.tool.name })
	}
	if err != nil {
		return tool.Result{}, err
	}
	return s.call(ctx, req, found.tool.name)
}

// location is a tool, and the server to which it belongs.
type location struct {
	server domain.MCPServer
	tool   remoteTool
	// protocol is the version that the server used when it listed the tool.
	protocol string
}

// find looks up the tool that a call names in the lists of the servers that may have the tool. If
// no list contains the tool, find requests the lists again, but only once. Its errors are of type
// *tool.Error, or the cause of ctx.
func (b *Backend) find(ctx context.Context, req tool.Request) (location, error) {
	// Usually only one server can have the tool, because the server's name is part of the tool's
	// name.
	servers := owners(serversFor(req), req.Call.Name)
	for again := true; ; again = false {
		found, err := b.look(ctx, req, servers)
		if found != nil {
			return *found, nil
		}

		// The tool may be newer than the cached list. So old lists are removed and requested again.
		forgotten := false
		for _, server := range servers {
			forgotten = again && err == nil && b.lists.forget(keyFor(req, server)) || forgotten
		}
		if forgotten {
			continue
		}
		if err != nil {
			return location{}, err
		}
		return location{}, &tool.Error{Message: "The server no longer has a tool with this name.", NotSent: true}
	}
}

// look looks up the requested tool in the lists of servers. It returns nil if no list contains the
// tool. If a list could not be read, the error states why.
func (b *Backend) look(ctx context.Context, req tool.Request, servers []domain.MCPServer) (*location, error) {
	var failed error
	for _, server := range servers {
		list, err := b.tools(ctx, req, server)
		// The call itself has ended, so the error does not mean that the server has failed.
		if ctx.Err() != nil {
			return nil, fmt.Errorf("looking for tool: %w", context.Cause(ctx))
		}
		if err != nil {
			// Another of the agent's MCP servers may still list the tool.
			failed = err
			continue
		}
		for _, t := range list.tools {
			if Name(serversFor(req), server.Name, t.name) == req.Call.Name {
				return &location{server: server, tool: t, protocol: list.protocol}, nil
			}
		}
	}
	return nil, failed
}

// call sends the tools/call request and waits up to callTimeout for its response. name is the
// tool's name on the server.
func (s *session) call(ctx context.Context, req tool.Request, name string) (tool.Result, error) {
	d := &delivery{sending: req.Sending, key: req.EffectKey, redactor: s.redactor}
	params := &sdk.CallToolParams{Name: name, Arguments: req.Call.Arguments}
	if req.EffectKey != "" {
		params.Meta = sdk.Meta{"idempotencyKey": req.EffectKey} // the body also contains the key, because few servers pass headers to tools
	}

	// The transport finds the delivery in the context, and sends the request at most once.
	calling, cancel := context.WithTimeout(context.WithValue(ctx, deliveryKey{}, d), callTimeout)
	defer cancel() // this also ends a response that continues after the result
	answer, err := s.CallTool(calling, params)
	if err != nil {
		return d.explain(ctx, err)
	}
	return output(ctx, answer, s.redactor)
}

// ownCodes lists the error codes that the library itself uses, for closed and rejected sessions.
// Errors with these codes do not come from a server.
var ownCodes = []int64{-32003, -32004, -32005}

// explain converts the error of a call. If the server responded with an error, that error is the
// result. Otherwise the returned error states whether the call may have been executed. err is the
// library's error, whose text is never shown.
func (d *delivery) explain(ctx context.Context, err error) (tool.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	cause := outbound.Error{Message: "The connection to the server was lost before a valid response arrived."}
	if d.err != nil {
		cause = *outbound.AsError(d.err)
	}

	// The cases are in order of certainty. Only the first two cases prove that nothing was sent.
	var rpcErr *jsonrpc.Error
	switch {
	case !d.begun:
		cause.NotSent = true
	case cause.NotSent:
	case ctx.Err() != nil:
		return tool.Result{}, fmt.Errorf("calling tool: %w", context.Cause(ctx))
	// The server has handled the call, because it responded with an error.
	case errors.As(err, &rpcErr) && !slices.Contains(ownCodes, rpcErr.Code):
		return failed("The server rejected the call: "+truncate.Runes(d.redactor.Text(clean(rpcErr.Message)), maxDescription), nil)
	case refused(d.status):
		return failed("The server "+statusError(d.status).words()+".", nil)
	// The response may come from a gateway instead of the server, so the outcome is unknown.
	case d.err == nil && d.status >= http.StatusMultipleChoices:
		cause.Message = "The server " + statusError(d.status).words() + "."
	}

	// The logged cause is the HTTP error or the status, and never the server's text.
	httpErr := d.err
	if httpErr == nil && d.status >= http.StatusMultipleChoices {
		httpErr = statusError(d.status)
	}
	return tool.Result{}, &tool.Error{Message: cause.Message, NotSent: cause.NotSent, Err: causeFor(httpErr, err, d.redactor)}
}

// refused reports whether a status means that the call was certainly not executed. Among the server
// errors, only 501 and 503 mean that.
func refused(status int) bool {
	return status >= http.StatusMultipleChoices && status < http.StatusInternalServerError ||
		status == http.StatusNotImplemented || status == http.StatusServiceUnavailable
}
