package clients

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"parley/scripts/internal/faultproxy"
)

// openAIAgents creates the agents for the tests of OpenAI's clients. It returns the environment
// variables that contain their IDs.
func openAIAgents(t *testing.T, s *testEnv) map[string]string {
	t.Helper()
	document := s.searchable(t, "Everybody has thirty days of holidays a year. The canteen opens at noon. "+t.Name())
	return map[string]string{
		"ECHO_ID":       s.agent(t, map[string]any{"model": "offline/echo"}),
		"STUB_ID":       s.agent(t, map[string]any{"model": "openai/stub"}),
		"BOOKS_ID":      s.books(t, nil),
		"ASKS_ID":       s.asks(t),
		"AUTOMATION_ID": s.agent(t, map[string]any{"model": "offline/echo", "allowedCallers": []string{"system"}}),
		"KNOWS_ID": s.agent(t, map[string]any{
			"tools": map[string]any{"knowledge": map[string]any{"enabled": true, "documentIds": []string{document}}},
		}),
		"DOCUMENT_ID": document,
		"QUESTION":    "How many days of holidays does everybody have?",
	}
}

// openAIEnvironment creates the agents of openAIAgents, and returns their environment variables as
// NAME=value.
func openAIEnvironment(t *testing.T, s *testEnv) (env []string) {
	t.Helper()
	for name, value := range openAIAgents(t, s) {
		env = append(env, name+"="+value)
	}
	return env
}

// asks creates an agent whose bookings in the ledger need a person's approval.
func (s *testEnv) asks(t *testing.T) (agentID string) {
	t.Helper()
	return s.books(t, map[string]any{"tools": map[string]any{"httpRequest": map[string]any{
		"enabled": true, "approval": "always", "endpoints": []any{map[string]any{
			"name": "bookBill", "description": "Books a bill.", "method": "POST", "url": s.ledger.url + "/book", "sideEffect": "idempotent",
		}},
	}}})
}

// searchable uploads a document and waits until it can be searched.
func (s *testEnv) searchable(t *testing.T, content string) (documentID string) {
	t.Helper()
	var document struct{ ID, Status string }
	s.call(t, http.MethodPost, "/api/knowledge", map[string]any{"name": t.Name() + ".txt", "content": content, "mimeType": "text/plain"}, &document)
	eventually(t, 30*time.Second, "the document can be searched", func() bool {
		s.call(t, http.MethodGet, "/api/knowledge?id="+document.ID, nil, &document)
		return document.Status == "ready"
	})
	return document.ID
}

// TestOpenAI runs OpenAI's JavaScript client: its operations, errors and retries.
func TestOpenAI(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	env, proxy := openAIEnvironment(t, s), s.faults(t)
	dropping, recording := proxy.DropFirst(), proxy.Pass()
	var got struct{ Parts int }
	decode(t, []byte(s.node(t, "openai.mjs", append(env, "DROPPING_URL="+dropping.URL, "RECORDING_URL="+recording.URL)...)), &got)
	if got.Parts < 10 {
		t.Errorf("%+v", got)
	}

	checkDropped(t, s, dropping, map[string]int{"/v1/chat/completions": 1, "/v1/responses": 2}, "OPENAI-3", "OPENAI-4", "OPENAI-5")
	if sent := recording.Requests(); len(sent) != 7 { // the client must not retry failed runs or a reused key
		t.Errorf("%d requests: %+v", len(sent), sent)
	}
}

// checkDropped checks that the client retried each dropped request once, and that each bill was
// booked once. The argument distinct maps each path to the number of different requests.
func checkDropped(t *testing.T, s *testEnv, door *faultproxy.Door, distinct map[string]int, bills ...string) {
	t.Helper()
	for path, want := range distinct {
		if sent := door.Sent(http.MethodPost, path); len(sent) != 2*want {
			t.Errorf("got %d requests to %s, want %d and each twice: %+v", len(sent), path, want, sent)
		}
	}
	for _, bill := range bills {
		if requests, effects := s.ledger.of(bill); requests != 1 || effects != 1 {
			t.Errorf("bill %s: requests = %d, effects in the ledger = %d", bill, requests, effects)
		}
	}
}

// TestFrameworks runs frameworks that use OpenAI's API. The connection of each framework breaks
// once. If the framework sends idempotency keys, the connection breaks after the service has
// responded, and the response is lost. Otherwise, the connection breaks while the model answers. No
// retry calls the model again.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	mark := rand.Text()[:8] // the test may be repeated in the same environment
	asked := func(name string) int {
		return s.model.Count("slowly retried-" + name + "-" + mark + " one two three four five six seven eight nine ten")
	}
	proxy := s.faults(t)
	dropping, leaving := proxy.DropFirst(), proxy.DropWhen(func() bool { return asked("openai-agents") > 0 })
	var got struct{ Frameworks int }
	env := append(openAIEnvironment(t, s),
		"DROPPING_URL="+dropping.URL, "LEAVING_URL="+leaving.URL, "MARK="+mark, "LAMPS_ID="+s.agent(t, map[string]any{"model": "offline"}))
	decode(t, []byte(s.node(t, "frameworks.mjs", env...)), &got)
	if got.Frameworks != 5 || dropping.Faults() != 4 || leaving.Faults() != 1 {
		t.Errorf("%+v, %d and %d faults", got, dropping.Faults(), leaving.Faults())
	}
	for _, name := range []string{"ai-sdk-openai", "ai-sdk-openai-compatible", "llamaindex-openai", "openai-agents", "langchain-openai"} {
		if n := asked(name); n != 1 {
			t.Errorf("%s: the model was called %d times", name, n)
		}
	}
}
