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
	"parley/workers/internal/tool"
)

// Backend lists and calls the tools of remote MCP servers; safe for concurrent use.
type Backend struct {
	client *outbound.Client
	unseal func(sealed, org, target string) (string, error)
	lists  *cache
}

// New makes a Backend; unseal opens a header value of an organization's agent.
func New(client *outbound.Client, unseal func(sealed, org, target string) (string, error)) *Backend {
	return &Backend{client: client, unseal: unseal, lists: newCache()}
}

// Kind is mcp.
func (b *Backend) Kind() string { return contract.ToolMCP }

// Call finds the server and the tool that a name stands for, and calls it, once.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(req.Call.Arguments, &arguments); err != nil || arguments == nil {
		return tool.Result{}, &tool.Error{Message: "The arguments must be an object.", NotSent: true, Err: err}
	}
	ctx, end := context.WithCancel(ctx)
	defer end() // and with it whatever a server goes on to say
	found, err := b.find(ctx, req)
	if err != nil {
		return tool.Result{}, err
	}
	s, err := b.open(ctx, req, found.server, found.protocol)
	if err != nil {
		return tool.Result{}, err
	}
	defer s.close()
	if found.tool.headers { // the library must have seen the definition in this session
		err = s.pages(ctx, func(t *sdk.Tool) bool { return t.Name != found.tool.name })
	}
	if err != nil {
		return tool.Result{}, err
	}
	return s.call(ctx, req, found.tool.name)
}

// place is where a tool is.
type place struct {
	server   domain.MCPServer
	tool     remote
	protocol string
}

// find looks a name up in the lists of the servers that it may belong to. Lists that do not have it are asked for again.
func (b *Backend) find(ctx context.Context, req tool.Request) (place, error) {
	servers := owners(serversFor(req), req.Call.Name)
	for again := true; ; again = false {
		found, err := b.look(ctx, req, servers)
		if found != nil {
			return *found, nil
		}
		forgotten := false
		for _, server := range servers {
			forgotten = again && err == nil && b.lists.forget(keyFor(req, server)) || forgotten
		}
		if forgotten {
			continue
		}
		if err != nil {
			return place{}, err
		}
		return place{}, &tool.Error{Message: "The server no longer has a tool with this name.", NotSent: true}
	}
}

func (b *Backend) look(ctx context.Context, req tool.Request, servers []domain.MCPServer) (*place, error) {
	var failed error
	for _, server := range servers {
		list, err := b.tools(ctx, req, server)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("looking for tool: %w", context.Cause(ctx))
		}
		if err != nil {
			failed = err
			continue
		}
		for _, t := range list.tools {
			if Name(serversFor(req), server.Name, t.name) == req.Call.Name {
				return &place{server: server, tool: t, protocol: list.protocol}, nil
			}
		}
	}
	return nil, failed
}

// call makes the one request that counts.
func (s *session) call(ctx context.Context, req tool.Request, name string) (tool.Result, error) {
	d := &delivery{sending: req.Sending, key: req.EffectKey, hide: s.hide}
	params := &sdk.CallToolParams{Name: name, Arguments: req.Call.Arguments}
	if req.EffectKey != "" {
		params.Meta = sdk.Meta{"idempotencyKey": req.EffectKey} // few servers show a tool the headers
	}
	calling, cancel := context.WithTimeout(context.WithValue(ctx, deliveryKey{}, d), callTimeout)
	defer cancel() // ends the reading of an answer that goes on after its end
	answer, err := s.CallTool(calling, params)
	if err != nil {
		return d.explain(ctx, err)
	}
	return output(ctx, answer, s.hide)
}

// ownCodes are those of the library's own errors (closing, rejected), which no server has sent.
var ownCodes = []int64{-32003, -32004, -32005}

// explain tells an answer that is an error from no answer, and whether the call may have been carried out.
func (d *delivery) explain(ctx context.Context, err error) (tool.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cause := outbound.Error{Message: "The connection to the server was lost before its answer."}
	if d.err != nil {
		cause = *outbound.AsError(d.err)
	}
	var answered *jsonrpc.Error
	switch {
	case !d.begun:
		cause.NotSent = true
	case cause.NotSent:
	case ctx.Err() != nil:
		return tool.Result{}, fmt.Errorf("calling tool: %w", context.Cause(ctx))
	case errors.As(err, &answered) && !slices.Contains(ownCodes, answered.Code):
		return failed("The server rejected the call: " + tool.CutRunes(d.hide.Text(clean(answered.Message)), maxDescription))
	case refused(d.status):
		return failed("The server " + statusError(d.status).words() + ".")
	case d.err == nil && d.status >= http.StatusMultipleChoices:
		cause.Message = "The server " + statusError(d.status).words() + "."
	}
	trouble := d.err
	if trouble == nil && d.status >= http.StatusMultipleChoices {
		trouble = statusError(d.status)
	}
	return tool.Result{}, &tool.Error{Message: cause.Message, NotSent: cause.NotSent, Err: causeFor(trouble, err, d.hide)}
}

// refused reports whether a status says that the call was not carried out. A server's fault, or a gateway's that lost
// the server, says nothing of the kind.
func refused(status int) bool {
	return status >= http.StatusMultipleChoices && status < http.StatusInternalServerError ||
		status == http.StatusNotImplemented || status == http.StatusServiceUnavailable
}
