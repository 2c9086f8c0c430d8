package clients

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/scripts/internal/api"
	"parley/shared/testkit/modelstub"
)

// ledger is an HTTP server that agents' tools call. It records each booking and its idempotency
// key, so that tests can count the effects.
type ledger struct {
	url string

	mu       sync.Mutex
	bookings []booking
}

// booking is one request to the ledger.
type booking struct{ key, body string }

func newLedger() *ledger { return &ledger{} }

// ServeHTTP records a booking.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := modelstub.ReadBody(r)
	if err != nil {
		return // an incomplete request has no effect
	}
	l.mu.Lock()
	l.bookings = append(l.bookings, booking{key: r.Header.Get("Idempotency-Key"), body: body})
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"booked":true}`) // the caller may have disconnected
}

// of returns the number of requests that booked the bill. It also returns the number of bookings
// that a receiver would have made if it honoured idempotency keys.
func (l *ledger) of(bill string) (requests, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := map[string]bool{}
	for _, b := range l.bookings {
		if strings.Contains(b.body, fmt.Sprintf("%q", bill)) {
			requests++
			keys[b.key] = true
		}
	}
	return requests, len(keys)
}

// booksFor returns a message with which the offline model of a booking agent books a bill in the
// ledger once.
func booksFor(bill string) string { return fmt.Sprintf(`Use bookBill with {"bill": %q}`, bill) }

// books creates a booking agent. Each of its runs with the message booksFor(bill) calls the ledger
// once. The request that creates the agent also contains the given fields.
func (s *testEnv) books(t *testing.T, fields map[string]any) (agentID string) {
	t.Helper()
	body := map[string]any{"tools": map[string]any{"httpRequest": map[string]any{"enabled": true, "endpoints": []any{map[string]any{
		"name": "bookBill", "description": "Books a bill.", "method": "POST", "url": s.ledger.url + "/book", "sideEffect": "idempotent",
		"inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"bill": map[string]any{"type": "string"}}, "required": []string{"bill"},
		},
	}}}}}
	maps.Copy(body, fields)
	return s.agent(t, body)
}

// shop is an MCP server whose only tool refuses every refund.
func shop() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "refund", Description: "Refunds a bill."},
		func(_ context.Context, _ *mcp.CallToolRequest, args struct {
			Bill string `json:"bill"`
		},
		) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: args.Bill + " is not paid"}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

// refunds creates an agent that can call the tool of the MCP server shop.
func (s *testEnv) refunds(t *testing.T) (agentID string) {
	t.Helper()
	return s.agent(t, map[string]any{"model": "offline", "tools": map[string]any{"mcp": map[string]any{
		"enabled": true, "servers": []any{map[string]any{"name": "shop", "url": s.ledger.url + "/mcp"}},
	}}})
}

// agent creates an agent that users and automations may call. The request that creates it contains
// the given fields.
func (s *testEnv) agent(t *testing.T, fields map[string]any) (id string) {
	t.Helper()
	body := map[string]any{"name": t.Name(), "systemPrompt": "Answer briefly.", "allowedCallers": []string{"user", "system"}}
	maps.Copy(body, fields)
	var made struct{ ID string }
	s.call(t, http.MethodPost, "/api/agents", body, &made)
	return made.ID
}

// call sends an API request with the environment's key. It fails the test if the request fails.
func (s *testEnv) call(t *testing.T, method, path string, body, into any) {
	t.Helper()
	s.callAs(t, map[string]string{"X-Api-Key": s.parley.APIKey}, method, path, body, into)
}

// callAs is like call with other credentials.
func (s *testEnv) callAs(t *testing.T, who map[string]string, method, path string, body, into any) {
	t.Helper()
	got := api.Send(t.Context(), method, s.parley.BaseURL+path, who, body)
	if got.Err != nil || got.Status >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s %v", method, path, got.Status, got.Body, got.Err)
	}
	if into != nil {
		decode(t, got.Body, into)
	}
}
