package clients

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// ledger is a receiver of side effects that nobody mocks: it books what reaches it, and knows under which key each booking came.
type ledger struct {
	url string

	mu       sync.Mutex
	bookings []booking
}

// booking is one request that the ledger was sent.
type booking struct{ key, body string }

func newLedger() *ledger { return &ledger{} }

// ServeHTTP books.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		return // half a request has no effect
	}
	l.mu.Lock()
	l.bookings = append(l.bookings, booking{key: r.Header.Get("Idempotency-Key"), body: body})
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"booked":true}`) // the caller may be gone
}

// of gives what was booked for a bill: requests is how many came, effects how many of them a receiver that honours keys would carry out.
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

// booksFor is a message that has the agents of books (on the offline model) book a bill at the ledger, once.
func booksFor(bill string) string { return fmt.Sprintf(`Use bookBill with {"bill": %q}`, bill) }

// books makes an agent that books at the ledger: each run of the message booksFor(bill) calls it once. Further fields of the agent are
// up to the test.
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

// agent makes an agent that people and automations may ask; its fields are up to the test.
func (s *testEnv) agent(t *testing.T, fields map[string]any) (id string) {
	t.Helper()
	body := map[string]any{"name": t.Name(), "systemPrompt": "Answer briefly.", "allowedCallers": []string{"user", "system"}}
	maps.Copy(body, fields)
	var made struct{ ID string }
	s.call(t, http.MethodPost, "/api/agents", body, &made)
	return made.ID
}

// call sends a request to the API with the stage's key, which must succeed.
func (s *testEnv) call(t *testing.T, method, path string, body, into any) {
	t.Helper()
	s.callAs(t, http.Header{"X-Api-Key": {s.creds.APIKey}}, method, path, body, into)
}

// callAs is call with another credential.
func (s *testEnv) callAs(t *testing.T, who http.Header, method, path string, body, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.creds.BaseURL+path, bytes.NewReader(encoded(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, who)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, raw, err)
	}
	if into != nil {
		decode(t, raw, into)
	}
}
