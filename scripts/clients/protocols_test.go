package clients

import (
	"net/http"
	"strings"
	"testing"
)

// protocolAgents creates the agents for tests of clients that do not use OpenAI's API. It returns
// the environment variables that contain their IDs.
func protocolAgents(t *testing.T, s *testEnv) []string {
	t.Helper()
	document := s.searchable(t, "Everybody has thirty days of holidays a year.\n\n"+t.Name())
	asking := s.agent(t, map[string]any{"tools": map[string]any{"knowledge": map[string]any{"enabled": true, "documentIds": []string{document}}}})
	failing := s.agent(t, map[string]any{"model": "openai/stub"})
	return []string{
		"ASKING_ID=" + asking, "FAILING_ID=" + failing, "PARKING_ID=" + s.asks(t), "QUESTION=How many days of holidays does everybody have?",
	}
}

// TestMCP runs the JavaScript client of the Model Context Protocol, and the proxy mcp-remote.
func TestMCP(t *testing.T) {
	t.Parallel()
	checkMCP(t, "mcp.mjs", 2)
}

// TestMCPAdapters runs LangChain's adapters for tools of MCP servers.
func TestMCPAdapters(t *testing.T) {
	t.Parallel()
	checkMCP(t, "mcpadapters.mjs", 1)
}

// checkMCP runs a script that uses several MCP clients, and checks each client's run. The argument
// clients is the number of MCP clients. checkMCP cancels the runs that wait for a person's
// decision.
func checkMCP(t *testing.T, script string, clients int) {
	t.Helper()
	needsNode(t)
	s := withTestEnv(t)
	var results []struct {
		Tools         int
		RunID, Parked string
	}

	decode(t, []byte(s.node(t, script, protocolAgents(t, s)...)), &results)
	if len(results) != clients {
		t.Errorf("%d clients, want %d", len(results), clients)
	}
	for _, got := range results {
		var run struct {
			Status  string
			Trigger struct{ Type string }
		}
		s.call(t, http.MethodGet, "/api/runs?id="+got.RunID, nil, &run)
		if run.Status != "completed" || run.Trigger.Type != "chat" || got.Tools < 2 {
			t.Errorf("%+v of %+v", run, got)
		}
		s.call(t, http.MethodPost, "/api/runs?action=cancel&id="+got.Parked, nil, &run)
	}
}

// TestAISDK runs the AI SDK's client and its package for React. The script covers the transport,
// the chats, and the schema of chunks.
func TestAISDK(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct {
		RunID, Error string
		Chunks       int
	}

	decode(t, []byte(s.node(t, "aisdk.mjs", protocolAgents(t, s)...)), &got)
	if got.RunID == "" || got.Error == "" || got.Chunks < 8 {
		t.Errorf("%+v", got)
	}
	if _, effects := s.ledger.of("AISDK-1"); effects != 1 {
		t.Errorf("the approved bill was booked %d times, want 1", effects)
	}
}

// TestAGUI runs AG-UI's client, which rejects events that arrive out of order.
func TestAGUI(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct {
		RunID, Code string
		Cited       int
	}
	decode(t, []byte(s.node(t, "agui.mjs", protocolAgents(t, s)...)), &got)
	if got.RunID == "" || got.Code == "" || got.Cited == 0 {
		t.Errorf("%+v", got)
	}
	if _, effects := s.ledger.of("AGUI-1"); effects != 1 {
		t.Errorf("the approved bill was booked %d times, want 1", effects)
	}

	// The prompt contains each message of the seeded thread exactly once.
	prompt := ""
	for _, r := range s.model.Requests() {
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Content == "AGUI-SEEDED two" {
			prompt = string(r.Body)
		}
	}
	for _, text := range []string{"Be formal.", "My name is Ada.", `"Good day, Ada."`, `"AGUI-SEEDED one"`, "AGUI-SEEDED two"} {
		if strings.Count(prompt, text) != 1 {
			t.Errorf("%q is not in the prompt once: %s", text, prompt)
		}
	}
}
