package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/scripts/internal/api"
)

// greeting contains the arguments of the MCP server's tool.
type greeting struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

// mcpServer starts an MCP server that uses streamable HTTP and requires a token.
func mcpServer(t *testing.T) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Says hi."},
		func(_ context.Context, _ *mcp.CallToolRequest, args greeting) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hi " + args.Name + " from the server"}}}, nil, nil
		})

	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listener := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token-of-the-server" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))

	return listener.URL
}

// mcpServerIsListedAndCalled makes the offline model, which needs no provider's key, call a
// tool of an MCP server.
func mcpServerIsListedAndCalled(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	url := mcpServer(t)
	in := s.first
	owner := signUp(t, in.url)
	var agent struct{ ID string }
	body := map[string]any{
		"name": "Greeter", "systemPrompt": "Greet.", "model": "offline", "allowedCallers": []string{"user", "system"},
		"tools": map[string]any{"mcp": map[string]any{"enabled": true, "servers": []any{
			map[string]any{"name": "hello", "url": url, "headers": map[string]string{"Authorization": "Bearer token-of-the-server"}, "sideEffect": "none"},
			map[string]any{"name": "gone", "url": url + "/nothing-here"},
		}}},
	}

	created := owner.send(t, http.MethodPost, in.url+"/api/agents", body).Want(t, http.StatusCreated)
	created.Into(t, &agent)
	if strings.Contains(string(created.Body), "token-of-the-server") {
		t.Fatalf("the response contains the secret: %s", created.Body)
	}

	owner.agent = agent.ID
	var r api.Run
	got := owner.post(t.Context(), trigger{message: "Use hello_greet with name: Ada"}).Want(t, http.StatusOK)
	got.Into(t, &r)
	if r.Status != "completed" || !strings.Contains(r.Message, "Hi Ada") || len(r.ToolCalls) != 1 || r.ToolCalls[0].Status != "completed" {
		t.Fatalf("the tool was not called: %s", got.Body)
	}
}

// openAPIDocumentIsImportedAndCalled imports an OpenAPI document as an agent's endpoints, and
// makes the offline model call one of them.
func openAPIDocumentIsImportedAndCalled(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	asked := make(chan string, 10)
	weather := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String() + " " + r.Header.Get("X-Token")
		writeJSON(w, map[string]string{"city": "Oslo", "weather": "snow"})
	}))

	document := fmt.Sprintf(`openapi: 3.1.0
info: {title: Weather, version: "1"}
servers: [{url: %s/v1}]
paths:
  /cities/{city}/weather:
    get:
      operationId: getWeather
      summary: The weather of a city.
      parameters:
        - {name: city, in: path, required: true, schema: {type: string}}
        - {name: units, in: query, schema: {type: string, enum: [metric, imperial]}}
      responses: {"200": {description: ok}}
`, weather.URL)

	in := s.first
	owner := signUp(t, in.url)
	owner.send(t, http.MethodPut, in.url+"/api/agents?id="+owner.agent, map[string]any{"model": "offline"}).Want(t, http.StatusOK)
	imported := owner.send(t, http.MethodPost, in.url+"/api/agents?action=import-openapi&id="+owner.agent, map[string]any{
		"document": document, "headers": map[string]string{"X-Token": "sesame"},
	}).Want(t, http.StatusOK)
	if !strings.Contains(string(imported.Body), `"getWeather"`) || strings.Contains(string(imported.Body), "sesame") {
		t.Fatalf("agent after the import = %s", imported.Body)
	}

	var r api.Run
	got := owner.post(t.Context(), trigger{message: "Use getWeather, city: Oslo, units: metric"}).Want(t, http.StatusOK)
	got.Into(t, &r)
	if r.Status != "completed" || !strings.Contains(r.Message, "snow") {
		t.Fatalf("the endpoint was not called: %s", got.Body)
	}
	if first := <-asked; first != "GET /v1/cities/Oslo/weather?units=metric sesame" {
		t.Errorf("request to the service = %q", first)
	}
}
