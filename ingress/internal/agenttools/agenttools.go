package agenttools

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// KeyName is the field of a tool call's _meta that contains the idempotency key. It is optional; a
// header of the HTTP request can be used instead.
const KeyName = "parley/idempotencyKey"

// instructions explain the tools to the client's model. They are sent in the response to the first
// request of a client.
const instructions = "Each tool is an agent of the organization that the API key belongs to. Send it a message as you would send " +
	"one to a colleague. To continue a conversation, send the sessionId of the earlier answer."

// The MCP methods that this package handles itself. The SDK handles all others.
const (
	methodList   = "tools/list"
	methodCall   = "tools/call"
	methodListen = "subscriptions/listen"
)

// JSON-RPC error codes for messages that are rejected before any method is called. They are those
// of JSON-RPC 2.0.
const (
	CodeParseError     = jsonrpc.CodeParseError
	CodeInvalidRequest = jsonrpc.CodeInvalidRequest
	CodeMethodNotFound = jsonrpc.CodeMethodNotFound
)

// CodeFor returns the JSON-RPC code for a message that the SDK has rejected with a plain text
// response. It returns false if the SDK has rejected the HTTP request, for example because of its
// Accept header. The SDK has no error type for this, so CodeFor compares the beginnings of its
// texts.
func CodeFor(refusal string) (code int, ok bool) {
	switch {
	case strings.HasPrefix(refusal, "JSON RPC not handled"):
		return CodeMethodNotFound, true
	case strings.HasPrefix(refusal, "invalid request"), strings.HasPrefix(refusal, "malformed payload"):
		return CodeInvalidRequest, true
	}
	return 0, false
}

// Agent is an agent that the caller may call. Description may be empty.
type Agent struct{ ID, Name, Description string }

// Call is a call of an agent's tool. Key is the idempotency key, or nil. Arguments are not checked
// yet.
type Call struct {
	AgentID   string
	Arguments json.RawMessage
	Key       *string
}

// Agents lists and runs the agents that a request's caller may call. The service implements it for
// each request. Errors of type *apierr.Error are shown to the client.
type Agents interface {
	// List returns the agents, each of which becomes a tool.
	List(ctx context.Context) ([]Agent, error)
	// Schemas returns the JSON Schemas of the agents' answers, by agent id. An agent that answers
	// in plain text has no schema.
	Schemas(ctx context.Context) (map[string]json.RawMessage, error)
	// Run executes a call and returns its run when the run has finished or waits for a person.
	// Until then it passes descriptions of the progress to the callback.
	Run(ctx context.Context, call Call, progress func(message string)) (*domain.Run, error)
}

// Server handles MCP requests. It is safe for concurrent use. A process uses a single Server, whose
// requests share no state.
type Server struct{ handler http.Handler }

// agentsKey is the key of a request's Agents in its context. The SDK passes the context of the
// request to the middleware.
type agentsKey struct{}

// New returns a server that reports version as the version of the service. Sessions of the SDK are
// turned off, so any process can handle any request.
func New(version string) *Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "parley", Title: "Parley", Version: version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	server.AddReceivingMiddleware(answer)
	return &Server{handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		DisableLocalhostProtection:   true, // browsers add no credentials to these requests
		PropagateRequestCancellation: true,
	})}
}

// Serve handles a request. It offers the given agents as tools. It writes the whole response before
// it returns. The response may be an event stream.
func (s *Server) Serve(w http.ResponseWriter, req *http.Request, agents Agents) {
	s.handler.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), agentsKey{}, agents)))
}

// answer is the middleware that handles the methods for tools. It takes the caller's agents from
// the context, because all callers share one SDK server. The SDK handles all other methods, and
// calls without agents in the context.
func answer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		agents, ok := ctx.Value(agentsKey{}).(Agents)
		switch {
		case method == methodList && ok:
			return list(ctx, agents)
		case method == methodCall && ok:
			if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil {
				return run(ctx, agents, call)
			}
		case method == methodListen: // rejected, because the client would get a stream without messages
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "subscriptions are not supported"}
		}
		return next(ctx, method, req)
	}
}

// list returns the tools: one for each agent that the caller may call. Clients may cache the list,
// but must not share it between users.
func list(ctx context.Context, agents Agents) (mcp.Result, error) {
	all, err := agents.List(ctx)
	if err != nil {
		return nil, protocolError(err)
	}
	schemas, err := agents.Schemas(ctx)
	if err != nil {
		return nil, protocolError(err)
	}

	result := &mcp.ListToolsResult{Tools: make([]*mcp.Tool, len(all)), Cacheable: mcp.Cacheable{CacheScope: "private"}}
	for i, name := range toolNames(all) {
		result.Tools[i] = tool(all[i], name, schemas[all[i].ID])
	}
	return result, nil
}

// run executes a tool call and returns its result. For an unknown tool or a malformed key it
// returns a JSON-RPC error. It converts other API errors to results that the model can read.
func run(ctx context.Context, agents Agents, req *mcp.CallToolRequest) (mcp.Result, error) {
	// The list maps the name of a tool to its agent, also for an agent that was renamed.
	all, err := agents.List(ctx)
	if err != nil {
		return nil, protocolError(err)
	}
	agent, ok := find(all, req.Params.Name)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool; list the tools again"}
	}

	call := Call{AgentID: agent.ID, Arguments: req.Params.Arguments}

	if key, given := req.Params.Meta[KeyName]; given {
		text, ok := key.(string)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: KeyName + " must be a string"}
		}
		call.Key = &text
	}

	done, err := agents.Run(ctx, call, progressFor(ctx, req))
	if err != nil {
		return failure(err)
	}
	return resultFor(done), nil
}

// progressFor returns a function that reports a call's progress to the client. If the client did
// not ask for progress, the function does nothing. The number of the notification is its progress,
// because the total is not known.
func progressFor(ctx context.Context, req *mcp.CallToolRequest) func(string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func(string) {}
	}
	sent := 0.0
	return func(message string) {
		sent++
		// An error is ignored, because the client gets the result of the call in any case.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: sent, Message: message})
	}
}

// protocolError converts an API error to a JSON-RPC error with its text, and any other error to an
// internal error. Internal errors have no details.
func protocolError(err error) error {
	if coded, ok := errors.AsType[*apierr.Error](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: errorText(coded)}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

// failure returns the result of a call that did not start a run. The result contains the text of
// the error, for the model that made the call. An error that is no API error becomes a JSON-RPC
// error.
func failure(err error) (mcp.Result, error) {
	coded, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return nil, protocolError(err)
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: errorText(coded)}}}, nil
}

// errorText returns the text of an API error, for the model that made the call. It has a line for
// each field, or the detail.
func errorText(e *apierr.Error) string {
	if len(e.Fields) == 0 {
		return string(e.Code) + ": " + e.Detail
	}
	lines := []string{string(e.Code)}
	for _, f := range e.Fields {
		lines = append(lines, f.Field+": "+f.Message)
	}
	return strings.Join(lines, "\n")
}
