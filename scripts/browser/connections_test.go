package browser

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
)

// Models that cannot be called: the provider rejects the key for lockedModel, and no server listens
// at the address that the tests configure for Anthropic's models.
const (
	lockedModel      = "openai/locked"
	unreachableModel = "anthropic/unreachable"
)

// openDoor is the credential that the tests' MCP server requires.
const openDoor = "Bearer open"

// locked wraps a model provider. Requests for lockedModel fail, because the service's key is wrong
// for that model. All other requests go to the given provider.
func locked(model http.Handler) http.Handler {
	other := openaistub.New()
	other.RequireKey("another key")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := modelstub.ReadBody(r)
		switch {
		case err != nil: // the request is incomplete
		case strings.Contains(body, `"model":"locked"`):
			other.ServeHTTP(w, r)
		default:
			model.ServeHTTP(w, r)
		}
	})
}

// desk is an MCP server with one tool. It requires a credential.
func desk() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "ring", Description: "Rings the bell."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != openDoor {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// toolRows returns a tool configuration with a connection of each kind. Each element of servers
// contains the name, URL and credential of an MCP server.
func toolRows(s *testEnv, endpoint string, servers ...[3]string) map[string]any {
	var list []any
	for _, server := range servers {
		list = append(list, map[string]any{"name": server[0], "url": server[1], "headers": map[string]any{"Authorization": server[2]}})
	}
	return map[string]any{
		"webSearch": map[string]any{"enabled": true},
		"mcp":       map[string]any{"enabled": true, "servers": list},
		"httpRequest": map[string]any{"enabled": true, "endpoints": []any{
			map[string]any{"name": "pay", "description": "Pays.", "method": "POST", "url": s.outside.url + "/pay", "sideEffect": "unsafe"},
			map[string]any{"name": "order", "description": "Orders.", "method": "POST", "url": endpoint, "sideEffect": "unsafe"},
		}},
	}
}

// TestConnections clicks the button that tests an agent's connections. For each connection, the
// page shows whether it works, its key is wrong, or its server is unreachable.
func TestConnections(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	door := a.s.outside.url + "/mcp"
	agent := a.agent(t, "Connected", map[string]any{
		"model": slowModel, "fallbackModels": []string{lockedModel, unreachableModel},
		"tools": toolRows(a.s, "https://orders.invalid/new",
			[3]string{"desk", door, openDoor}, [3]string{"locked", door, "Bearer wrong"}, [3]string{"gone", "https://mcp.invalid/mcp", openDoor}),
	})

	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	connections := p.in("region", "Connections")
	connections.sees("Not tested yet.")
	connections.click("button", "Test connections")
	for name, result := range map[string]string{
		"Model " + slowModel:        "completed answered;",
		"Model " + lockedModel:      "failed The model provider rejected the service's credentials.",
		"Model " + unreachableModel: "failed The model provider is not available.",
		"Web search searxng":        "results",
		"MCP server desk":           "completed 1 tools, protocol",
		"MCP server locked":         "failed The server rejected the credentials (status 401).",
		"MCP server gone":           "failed The host could not be reached.",
		"Endpoint pay":              "completed connected to the host; no request was sent",
		"Endpoint order":            "failed The host could not be reached.",
	} {
		connections.in("row", name+"…").sees(result)
	}
	connections.sees("failed Tested")
	p.inspect("connections-failed")

	// After a reload, the page still shows the result and the agent's version that was tested.
	p.reload()
	connections.in("row", "MCP server gone…").sees("The host could not be reached.")
	connections.seesNot("before the last change")
	a.call(t, http.MethodPut, "/api/agents?id="+agent, map[string]any{
		"fallbackModels": []string{}, "tools": toolRows(a.s, a.s.outside.url+"/pay", [3]string{"desk", door, openDoor}),
	}, nil)
	p.reload()
	connections.sees("before the last change (version 1)")

	connections.click("button", "Test connections")
	connections.sees("completed Tested")
	connections.in("row", "Endpoint order…").sees("completed connected")
	connections.isNot("row", "MCP server gone…")
	connections.seesNot("failed")
	p.fill("Description", "Changed")
	connections.sees("Unsaved changes are not tested.")
	p.inspect("connections")
}
