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

// Backend lists and calls the tools of remote MCP servers. It is safe for concurrent use.
type Backend struct {
	client *outbound.Client
	unseal func(sealed, org, target string) (string, error)
	lists  *cache
}

// New creates a Backend. unseal decrypts a header value that belongs to an agent.
func New(client *outbound.Client, unseal func(sealed, org, target string) (string, error)) *Backend {
	return &Backend{client: client, unseal: unseal, lists: newCache()}
}

// Kind returns mcp.
func (b *Backend) Kind() string { return contract.ToolMCP }

// Call finds the server and the tool for a name, and calls the tool once.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(req.Call.Arguments, &arguments); err != nil || arguments == nil {
		return tool.Result{}, &tool.Error{Message: "The arguments must be an object.", NotSent: true, Err: err}
	}
	ctx, end := context.WithCancel(ctx)
	defer end() // also ends a response that the server is still sending

	// The server and the name on it come from the lists and never from the model.
	found, err := b.find(ctx, req)
	if err != nil {
		return tool.Result{}, err
	}

	// Request the protocol version that the server used before.
	s, err := b.open(ctx, req, found.server, found.protocol)
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()
	if found.tool.headers { // the library needs the tool's definition in the session of the call
		err = s.pages(ctx, func(t *sdk.Tool) bool { return t.Name != found.tool.name })
	}
	if err != nil {
		return tool.Result{}, err
	}
	return s.call(ctx, req, found.tool.name)
}

// location is a tool and the server that has it.
type location struct {
	server domain.MCPServer
	tool   remoteTool
	// protocol is the version that the server used when it listed the tool.
	protocol string
}

// find returns the tool with a name. It looks in the lists of all servers that may have the tool.
// If no list contains it, find requests the lists again, but only once.
func (b *Backend) find(ctx context.Context, req tool.Request) (location, error) {
	// Usually this is a single server, because its name is part of the tool's name.
	servers := owners(serversFor(req), req.Call.Name)
	for again := true; ; again = false {
		found, err := b.look(ctx, req, servers)
		if found != nil {
			return *found, nil
		}

		// A cached list may be older than the tool, so remove the lists that are not fresh and look
		// again.
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

// look looks for the requested tool in the lists of servers. It returns nil if no list contains the
// tool. The error is from a list that could not be read.
func (b *Backend) look(ctx context.Context, req tool.Request, servers []domain.MCPServer) (*location, error) {
	var failed error
	for _, server := range servers {
		list, err := b.tools(ctx, req, server)
		// The call has ended, which is not the server's failure.
		if ctx.Err() != nil {
			return nil, fmt.Errorf("looking for tool: %w", context.Cause(ctx))
		}
		if err != nil {
			// Another server may still have the tool.
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

// call sends the tools/call request.
func (s *session) call(ctx context.Context, req tool.Request, name string) (tool.Result, error) {
	d := &delivery{sending: req.Sending, key: req.EffectKey, redactor: s.redactor}
	params := &sdk.CallToolParams{Name: name, Arguments: req.Call.Arguments}
	if req.EffectKey != "" {
		params.Meta = sdk.Meta{"idempotencyKey": req.EffectKey} // few servers pass headers to their tools
	}

	// The transport finds the delivery in the context and sends the call at most once.
	calling, cancel := context.WithTimeout(context.WithValue(ctx, deliveryKey{}, d), callTimeout)
	defer cancel() // also ends a response that continues after the result
	answer, err := s.CallTool(calling, params)
	if err != nil {
		return d.explain(ctx, err)
	}
	return output(ctx, answer, s.redactor)
}

// ownCodes lists error codes that the library itself produces, for closed and rejected sessions.
// They never come from a server.
var ownCodes = []int64{-32003, -32004, -32005}

// explain converts the error of a call. If the server responded with an error, that is the result.
// Otherwise the error states whether the call may have been executed.
func (d *delivery) explain(ctx context.Context, err error) (tool.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()

	cause := outbound.Error{Message: "The connection to the server was lost before its answer."}
	if d.err != nil {
		cause = *outbound.AsError(d.err)
	}

	// The cases are ordered by certainty. Only the first two prove that nothing was sent.
	var rpcErr *jsonrpc.Error
	switch {
	case !d.begun:
		cause.NotSent = true
	case cause.NotSent:
	case ctx.Err() != nil:
		return tool.Result{}, fmt.Errorf("calling tool: %w", context.Cause(ctx))
	// The server has answered, so it has handled the call, even though it reports an error.
	case errors.As(err, &rpcErr) && !slices.Contains(ownCodes, rpcErr.Code):
		return failed("The server rejected the call: "+truncate.Runes(d.redactor.Text(clean(rpcErr.Message)), maxDescription), nil)
	case refused(d.status):
		return failed("The server "+statusError(d.status).words()+".", nil)
	// A gateway may have answered instead of the server, so the outcome stays unknown.
	case d.err == nil && d.status >= http.StatusMultipleChoices:
		cause.Message = "The server " + statusError(d.status).words() + "."
	}

	// The cause for the log is the HTTP error or the status, never the server's text.
	httpErr := d.err
	if httpErr == nil && d.status >= http.StatusMultipleChoices {
		httpErr = statusError(d.status)
	}
	return tool.Result{}, &tool.Error{Message: cause.Message, NotSent: cause.NotSent, Err: causeFor(httpErr, err, d.redactor)}
}

// refused reports whether a status means that the call was certainly not executed. Errors of a
// server or gateway do not mean that.
func refused(status int) bool {
	return status >= http.StatusMultipleChoices && status < http.StatusInternalServerError ||
		status == http.StatusNotImplemented || status == http.StatusServiceUnavailable
}
