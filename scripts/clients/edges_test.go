package clients

import (
	"strings"
	"testing"
)

// TestWebhookSenders sends deliveries to hooks, signed with the libraries of Svix, Standard
// Webhooks, Stripe and GitHub.
func TestWebhookSenders(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var runs map[string]string
	decode(t, []byte(s.node(t, "webhooks.mjs", "ECHO_ID="+s.agent(t, map[string]any{"model": "offline/echo"}))), &runs)
	for name, runID := range runs {
		if s.wholeRun(t, runID).Message != "echo: New: ⟦Ada⟧" {
			t.Errorf("%s: %+v", name, s.wholeRun(t, runID))
		}
	}
	if len(runs) != 4 {
		t.Errorf("%v", runs)
	}
}

// wholeRun waits until a run has finished, and returns it.
func (s *testEnv) wholeRun(t *testing.T, runID string) (run struct{ Status, Message string }) {
	t.Helper()
	s.call(t, "GET", "/api/runs?wait=30&id="+runID, nil, &run)
	return run
}

// TestAgentsSDK runs OpenAI's Agents SDK. The SDK sends the items of earlier responses back to the
// service. Two of these items are failed calls, one of a program and one of an MCP server's tool.
func TestAgentsSDK(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Status, Answer string }
	decode(t, []byte(s.node(t, "agents.mjs", "REFUNDS_ID="+s.refunds(t))), &got)
	if got.Status != "completed" || got.Answer == "" {
		t.Errorf("%+v", got)
	}
}

// TestOpenAIEdges checks unusual requests of OpenAI's client, for example to wrong paths or with
// very long messages.
func TestOpenAIEdges(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Unstored, Full string }
	decode(t, []byte(s.node(t, "edges.mjs", "ECHO_ID="+s.agent(t, map[string]any{"model": "offline/echo"}), "STUB_ID="+s.agent(t, map[string]any{"model": "openai/stub"}))), &got)
	if run := s.wholeRun(t, got.Unstored); run.Status != "completed" || !strings.Contains(got.Full, "openai/stub") {
		t.Errorf("%+v of %+v", run, got)
	}
}
