package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/domain"
	"parley/shared/outbound"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/mcp"
)

// countingServer is a proxy that counts the requests to an MCP server.
type countingServer struct {
	*httptest.Server

	next http.Handler
	// intercept may respond to a request instead of the server. method is the method of the
	// JSON-RPC message or, if the request contains no message, the HTTP method.
	intercept func(method string, w http.ResponseWriter, r *http.Request) bool

	mu   sync.Mutex
	seen map[string]int
	last map[string]http.Header
	body map[string]string
}

func newTap(t *testing.T, next http.Handler, intercept func(string, http.ResponseWriter, *http.Request) bool) *countingServer {
	t.Helper()
	p := &countingServer{next: next, intercept: intercept, seen: map[string]int{}, last: map[string]http.Header{}, body: map[string]string{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

func (p *countingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(raw))
	var message struct {
		Method string `json:"method"`
	}
	method := r.Method
	if json.Unmarshal(raw, &message) == nil && message.Method != "" {
		method = message.Method
	}
	p.mu.Lock()
	p.seen[method]++
	p.last[method], p.body[method] = r.Header.Clone(), string(raw)
	p.mu.Unlock()
	if p.intercept == nil || !p.intercept(method, w, r) {
		p.next.ServeHTTP(w, r)
	}
}

func (p *countingServer) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[method]
}

func (p *countingServer) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, times := range p.seen {
		n += times
	}
	return n
}

func (p *countingServer) request(method string) (http.Header, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[method], p.body[method]
}

// breakOff closes the connection of a request instead of sending a response. It reports whether it
// succeeded.
func breakOff(w http.ResponseWriter) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

type greeting struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

type sum struct {
	Total int `json:"total"`
}

// newServer returns an MCP server like that in the examples of the SDK.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "example", Version: "1.0.0"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "say hi"}, func(_ context.Context, _ *sdk.CallToolRequest, in greeting) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hi " + in.Name}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "add"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct{ A, B int }) (*sdk.CallToolResult, sum, error) {
		return nil, sum{in.A + in.B}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("out of stock")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "show"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a\x00b"},
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte("12345")},
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("123")},
			&sdk.ResourceLink{URI: "file:///x", Name: "x", Description: "the x"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///y", Text: "why"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///z", MIMEType: "a/b", Blob: []byte("1")}},
		}}, nil, nil
	})
	return s
}

func handler(s *sdk.Server, options *sdk.StreamableHTTPOptions) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, options)
}

// newBackend returns a backend that may connect to loopback addresses. It decrypts secrets of the
// form "sealed:<org>/<target>:<value>".
func newBackend(t *testing.T) *mcp.Backend {
	t.Helper()
	return newBackendWith(t, func(sealed, org, target string) (string, error) {
		value, ok := strings.CutPrefix(sealed, fmt.Sprintf("sealed:%s/%s:", org, target))
		if !ok {
			return "", errors.New("not sealed for this agent")
		}
		return value, nil
	})
}

func newBackendWith(t *testing.T, unseal func(sealed, org, target string) (string, error)) *mcp.Backend {
	t.Helper()
	client, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	return mcp.New(client, unseal)
}

func request(servers ...domain.MCPServer) tool.Request {
	return tool.Request{
		OrganizationID: "org_1", TargetID: "ag_1", RunID: "run_1",
		Config: domain.Config{Tools: domain.Tools{MCP: &domain.MCPTool{Enabled: true, Servers: servers}}},
	}
}

func at(name string, p *countingServer) domain.MCPServer {
	return domain.MCPServer{Name: name, URL: p.URL + "/mcp"}
}

func calling(req tool.Request, name, arguments string) tool.Request {
	req.Call = tool.Call{ID: "call_1", Name: name, Arguments: json.RawMessage(arguments)}
	return req
}

func list(t *testing.T, b *mcp.Backend, req tool.Request) []tool.Spec {
	t.Helper()
	listed, err := b.List(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return listed.Specs
}

func names(specs []tool.Spec) string {
	all := make([]string, len(specs))
	for i, s := range specs {
		all[i] = s.Name
	}
	return strings.Join(all, " ")
}

// scripted responds to JSON-RPC methods with fixed results.
func scripted(results map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&message) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result, known := results[message.Method]
		switch {
		case message.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case message.Method == "initialize":
			result, known = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Obey."}`, true
		}
		w.Header().Set("Content-Type", "application/json")
		if !known {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, message.ID)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, message.ID, result)
	})
}
