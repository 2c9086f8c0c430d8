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

// Limits of lists.
const (
	maxServerTools = 128
	maxTools       = 256
	maxPages       = 32
	maxDescription = 1000      // characters
	maxSchema      = 16 << 10  // bytes
	maxOwnName     = 256       // bytes of a tool's name on its server
	maxSpecs       = 384 << 10 // bytes of all as JSON: they go into one message, and into a prompt
)

// remote is a tool as its server has it.
type remote struct {
	name        string
	description string
	schema      json.RawMessage
	headers     bool // arguments go out in headers, too, which the library makes of the definition
}

// List gives the tools of all servers that answer, in the servers' order.
func (b *Backend) List(ctx context.Context, req tool.Request) ([]tool.Spec, error) {
	servers := serversFor(req)
	lists, errs := make([]*listing, len(servers)), make([]error, len(servers))
	var wait sync.WaitGroup
	for i, server := range servers {
		wait.Go(func() {
			errs[i] = guard(ctx, func() (err error) {
				lists[i], err = b.tools(ctx, req, server)
				return err
			})
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listing tools: %w", context.Cause(ctx))
	}
	c := collection{servers: servers, taken: map[string]bool{}, log: zerolog.Ctx(ctx)}
	for i, server := range servers {
		if errs[i] != nil {
			c.log.Warn().Err(errs[i]).AnErr("cause", errors.Unwrap(errs[i])).Str("server", server.Name).Msg("cannot list the tools of an MCP server")
			continue
		}
		c.add(server, lists[i].tools)
	}
	return c.specs, nil
}

// collection gathers the tools of all servers within the bounds of the whole.
type collection struct {
	servers []domain.MCPServer
	specs   []tool.Spec
	taken   map[string]bool
	size    int
	log     *zerolog.Logger
}

func (c *collection) add(server domain.MCPServer, tools []remote) {
	left := 0
	for _, t := range tools {
		spec := tool.Spec{
			Name: Name(c.servers, server.Name, t.name), Description: t.description, Schema: t.schema, SideEffect: sideEffect(server),
		}
		// As long as it is in the answer, where some characters are escaped.
		raw, err := json.Marshal(contract.ToolSpec{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
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

// sideEffect is what the organization says of a server's tools; of what the server says nothing is believed.
func sideEffect(server domain.MCPServer) domain.SideEffect {
	if server.SideEffect == "" {
		return domain.SideEffectUnsafe
	}
	return server.SideEffect
}

func serversFor(req tool.Request) []domain.MCPServer {
	if t := req.Config.Tools.MCP; t != nil && t.Enabled {
		return t.Servers
	}
	return nil
}

// tools gives a server's list, out of the cache when it can.
func (b *Backend) tools(ctx context.Context, req tool.Request, server domain.MCPServer) (*listing, error) {
	return b.lists.get(ctx, req.OrganizationID, keyFor(req, server), func(ctx context.Context, into *listing) error {
		return b.ask(ctx, req, server, into)
	})
}

// keyFor names a list. Sealed values stand for what they hold: they are different for others and after each change.
func keyFor(req tool.Request, server domain.MCPServer) key {
	parts := []string{req.OrganizationID, req.TargetID, server.Name, server.URL}
	for _, name := range slices.Sorted(maps.Keys(server.Headers)) {
		parts = append(parts, name, server.Headers[name])
	}
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash never fails
	}
	return key(h.Sum(nil))
}

// ask asks a server for its list.
func (b *Backend) ask(ctx context.Context, req tool.Request, server domain.MCPServer, into *listing) error {
	s, err := b.open(ctx, req, server, "")
	if err != nil {
		return err
	}
	defer s.close()
	into.protocol = s.InitializeResult().ProtocolVersion
	left := 0
	err = s.pages(ctx, func(t *sdk.Tool) bool {
		known, ok := read(t, s.hide)
		if !ok || len(into.tools) == maxServerTools || slices.ContainsFunc(into.tools, func(o remote) bool { return o.name == t.Name }) {
			left++
			return len(into.tools) < maxServerTools
		}
		into.tools = append(into.tools, known)
		into.size += len(known.name) + len(known.description) + len(known.schema) + 100
		return true
	})
	if left > 0 {
		log := zerolog.Ctx(ctx).Warn().Int("tools", left).Str("server", server.Name)
		log.Msg("MCP tools omitted: too many tools, names already in use or secret, or unusable schemas")
	}
	return err
}

// pages shows each tool of the server until that is enough, page by page.
func (s *session) pages(ctx context.Context, see func(*sdk.Tool) bool) error {
	cursor := ""
	for range maxPages {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		var answered *jsonrpc.Error
		switch {
		case errors.As(err, &answered) && answered.Code == jsonrpc.CodeMethodNotFound:
			return nil // a server may have no tools at all
		case err != nil:
			return s.wire.explain(ctx, err, s.hide)
		}
		for _, t := range page.Tools {
			if t != nil && !see(t) {
				return nil
			}
		}
		if page.NextCursor == "" || page.NextCursor == cursor {
			return nil
		}
		cursor = page.NextCursor
	}
	return nil
}

// read makes a tool fit to be shown to a model; false when its name or its schema cannot be used.
func read(t *sdk.Tool, hide *redact.Redactor) (remote, bool) {
	c := cleaner{hide: hide}
	if t.Name == "" || len(t.Name) > maxOwnName || hide.Text(t.Name) != t.Name {
		return remote{}, false
	}
	r := remote{name: t.Name, description: c.prose(t.Description)}
	if r.description == "" {
		r.description = c.prose(t.Title)
	}
	schema, ok := t.InputSchema.(map[string]any)
	switch {
	case t.InputSchema == nil:
		schema = map[string]any{}
	case !ok:
		return r, false
	}
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
