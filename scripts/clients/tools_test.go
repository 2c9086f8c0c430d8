package clients

import "testing"

// TestTools lets an agent that has its own tool call functions of the client, through several npm
// packages. The agent's own tool is called once for each question, even if the client sends several
// requests.
func TestTools(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Parts int }
	decode(t, []byte(s.node(t, "tools.mjs", "AGENT_ID="+s.books(t, nil))), &got)
	if got.Parts != 8 {
		t.Errorf("%d parts", got.Parts)
	}
	for _, bill := range []string{
		"TOOLS-1", "TOOLS-2", "TOOLS-3", "TOOLS-4", "TOOLS-5", "TOOLS-6", "TOOLS-7", "TOOLS-8", "TOOLS-9", "TOOLS-10",
	} {
		if requests, effects := s.ledger.of(bill); requests != 1 || effects != 1 {
			t.Errorf("%s was booked %d times, %d effects", bill, requests, effects)
		}
	}
}

// TestToolAgents runs frameworks that call functions of the client in a loop. Neither the client's
// functions nor the agent's own tool are called twice for the same question.
func TestToolAgents(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Parts, Calls int }
	decode(t, []byte(s.node(t, "toolagents.mjs", "AGENT_ID="+s.books(t, nil),
		"OFFLINE_ID="+s.agent(t, map[string]any{"model": "offline"}))), &got)
	if got.Parts != 5 || got.Calls != 7 {
		t.Errorf("%+v", got)
	}
	for _, bill := range []string{"AGENTS-1", "AGENTS-2", "AGENTS-3", "AGENTS-4"} {
		if requests, effects := s.ledger.of(bill); requests != 1 || effects != 1 {
			t.Errorf("%s was booked %d times, %d effects", bill, requests, effects)
		}
	}
}
