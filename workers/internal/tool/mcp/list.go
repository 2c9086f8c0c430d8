package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// Limits of listings.
const (
	// Maximum number of tools of one server.
	maxServerTools = 128
	// Maximum number of tools of all servers.
	maxTools = 256
	// Maximum number of pages of a server's list, because a server could return pages endlessly.
	maxPages       = 32
	maxDescription = 1000      // characters
	maxSchema      = 16 << 10  // bytes
	maxOwnName     = 256       // bytes of a tool's name on its server
	maxSpecs       = 384 << 10 // bytes of all specs as JSON; they are sent in one message and are part of the prompt
)

// remoteTool is a tool as its server lists it, with sanitized texts. It is cached and must not be
// changed.
type remoteTool struct {
	name        string
	description string
	schema      json.RawMessage
	headers     bool // true if the library also sends some arguments in headers, for which it needs the tool's definition
}

// List returns the tools of all servers that respond, in the order of the servers. It also returns
// the servers that do not respond, with a public reason. It fails only if ctx ends. The number and
// the total size of the tools are limited.
func (b *Backend) List(ctx context.Context, req tool.Request) (tool.Listing, error) {
	servers := serversFor(req)
	lists, errs := make([]*listing, len(servers)), make([]error, len(servers))

	var wait sync.WaitGroup
	for i, server := range servers {
		wait.Go(func() {
			// Each server has its own goroutine, so a slow server does not delay the requests to
			// the other servers.
			errs[i] = guard(ctx, func() (err error) {
				lists[i], err = b.tools(ctx, req, server)
				return err
			})
		})
	}

	wait.Wait()
	if ctx.Err() != nil {
		return tool.Listing{}, fmt.Errorf("listing tools: %w", context.Cause(ctx))
	}

	// The lists are added in the order of the servers, so that the result does not depend on the
	// speed of the servers.
	var absent []contract.AbsentServer
	c := collection{servers: servers, taken: map[string]bool{}, log: zerolog.Ctx(ctx)}
	for i, server := range servers {
		// If a server fails, the run continues with the tools of the other servers.
		if errs[i] != nil {
			c.log.Warn().Err(errs[i]).AnErr("cause", errors.Unwrap(errs[i])).Str("server", server.Name).Msg("cannot list the tools of an MCP server")
			absent = append(absent, contract.AbsentServer{Name: server.Name, Reason: reason(errs[i])})
			continue
		}
		c.add(server, lists[i].tools)
	}
	return tool.Listing{Specs: c.specs, Absent: absent}, nil
}

// reason returns the public reason why a server's tools could not be listed.
func reason(err error) string {
	switch public, ok := errors.AsType[*tool.Error](err); {
	case ok:
		return public.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "The server did not respond in time."
	default:
		return "The server's tools could not be listed."
	}
}

// collection collects the tools of all servers up to the limits. It is used for one call of List.
type collection struct {
	servers []domain.MCPServer
	specs   []tool.Spec
	// taken contains the names that are in use, and size is the number of bytes of all specs as
	// JSON.
	taken map[string]bool
	size  int
	log   *zerolog.Logger
}

// add adds a server's tools. It skips a tool whose name is already used or that would exceed a
// limit.
func (c *collection) add(server domain.MCPServer, tools []remoteTool) {
	left := 0
	for _, t := range tools {
		spec := tool.Spec{
			Name: Name(c.servers, server.Name, t.name), Description: t.description, Schema: t.schema, SideEffect: sideEffect(server),
		}
		// The limit applies to the encoded size, because JSON escapes some characters.
		raw, err := json.Marshal(contract.ToolSpec{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
		// If a tool does not fit, a smaller one after it may still fit.
		if err != nil || c.taken[spec.Name] || len(c.specs) == maxTools || c.size+len(raw) > maxSpecs {
			left++
			continue
		}
		c.taken[spec.Name] = true
		c.size += len(raw)
		c.specs = append(c.specs, spec)
	}
	if left > 0 {
		c.log.Warn().Int("tools", left).Str("server", server.Name).Msg("MCP tools omitted: too many tools, or names already in use")
	}
}

// sideEffect returns the side effect that the organization has configured for a server. The
// server's own statements about side effects are not trusted.
func sideEffect(server domain.MCPServer) domain.SideEffect {
	if server.SideEffect == "" {
		return domain.SideEffectUnsafe
	}
	return server.SideEffect
}

// serversFor returns the agent's servers, or nil if the agent does not have the tool mcp.
func serversFor(req tool.Request) []domain.MCPServer {
	if t := req.Config.Tools.MCP; t != nil && t.Enabled {
		return t.Servers
	}
	return nil
}

// tools returns the tools of a server, from the cache if possible.
func (b *Backend) tools(ctx context.Context, req tool.Request, server domain.MCPServer) (*listing, error) {
	return b.lists.get(ctx, req.OrganizationID, keyFor(req, server), func(ctx context.Context, into *listing) error {
		return b.ask(ctx, req, server, into)
	})
}

// keyFor returns the cache key for a server's list. The key contains encrypted header values and no
// secrets. The encrypted form of a value differs between agents, and changes when the value is set
// again.
func keyFor(req tool.Request, server domain.MCPServer) key {
	parts := []string{req.OrganizationID, req.TargetID, server.Name, server.URL}
	for _, name := range slices.Sorted(maps.Keys(server.Headers)) {
		parts = append(parts, name, server.Headers[name])
	}
	h := sha256.New()
	for _, part := range parts {
		// Each part is preceded by its length, so that different lists of parts never form the same
		// text.
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails
	}
	return key(h.Sum(nil))
}

// ask requests the list of a server and stores it in a listing. It fails with a *tool.Error whose
// message is public.
func (b *Backend) ask(ctx context.Context, req tool.Request, server domain.MCPServer, into *listing) error {
	s, err := b.open(ctx, req, server, "")
	if err != nil {
		return err
	}
	defer s.close()

	into.protocol = s.InitializeResult().ProtocolVersion

	// Unusable tools are left out, and the other tools of the list are kept.
	left := 0
	err = s.pages(ctx, func(t *sdk.Tool) bool {
		known, ok := read(t, s.redactor)
		// A name must occur only once in a server's list, because a call contains only the name.
		if !ok || len(into.tools) == maxServerTools || slices.ContainsFunc(into.tools, func(o remoteTool) bool { return o.name == t.Name }) {
			left++
			return len(into.tools) < maxServerTools
		}
		into.tools = append(into.tools, known)
		into.size += len(known.name) + len(known.description) + len(known.schema) + 100
		return true
	})

	if left > 0 {
		log := zerolog.Ctx(ctx).Warn().Int("tools", left).Str("server", server.Name)
		log.Msg("MCP tools omitted: too many tools, names that are already in use or contain secrets, or unusable schemas")
	}
	return err
}

// pages requests the list page by page and calls the function see with each tool, until the
// function returns false. It reads at most maxPages pages. A server without tools is not an error.
func (s *session) pages(ctx context.Context, see func(*sdk.Tool) bool) error {
	cursor := ""
	for range maxPages {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		var rpcErr *jsonrpc.Error
		switch {
		case errors.As(err, &rpcErr) && rpcErr.Code == jsonrpc.CodeMethodNotFound:
			return nil // a server may have no tools at all
		case err != nil:
			return s.wire.explain(ctx, err, s.redactor)
		}
		for _, t := range page.Tools {
			if t != nil && !see(t) {
				return nil
			}
		}
		// A cursor that does not change would lead to the same page, so stop.
		if page.NextCursor == "" || page.NextCursor == cursor {
			return nil
		}
		cursor = page.NextCursor
	}
	return nil
}

// read returns a tool in a sanitized form for models. It returns false if the tool's name or schema
// cannot be used. It may change t.InputSchema.
func read(t *sdk.Tool, redactor *redact.Redactor) (remoteTool, bool) {
	c := cleaner{redactor: redactor}
	// If the name were changed by redaction, calls would not reach the tool. So a tool whose name
	// contains a secret is unusable.
	if t.Name == "" || len(t.Name) > maxOwnName || redactor.Text(t.Name) != t.Name {
		return remoteTool{}, false
	}

	r := remoteTool{name: t.Name, description: c.prose(t.Description)}
	if r.description == "" {
		r.description = c.prose(t.Title)
	}

	// A schema that is not an object, for example a boolean, cannot describe arguments.
	schema, ok := t.InputSchema.(map[string]any)
	switch {
	case t.InputSchema == nil:
		schema = map[string]any{}
	case !ok:
		return r, false
	}

	// Providers require the type object, which some servers omit.
	if schema["type"] == nil {
		schema["type"] = "object"
	}
	if schema, ok = c.schema(schema).(map[string]any); !ok || c.unfit {
		return r, false
	}

	raw, err := json.Marshal(schema)
	r.schema = raw
	r.headers = bytes.Contains(raw, []byte(`"x-mcp-header"`))
	return r, err == nil && schema["type"] == "object" && len(raw) <= maxSchema
}
