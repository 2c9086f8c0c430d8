package clients

import "testing"

// TestStop stops answers with the clients of each protocol, and lets OpenAI's client time out. The
// script checks the runs, and a neighbour's run.
func TestStop(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var took struct{ Completion, Following, Chat, AGUI, MCP float64 } // seconds until the run was cancelled, or the next answer arrived
	decode(t, []byte(s.node(t, "stop.mjs", "STUB_ID="+s.agent(t, map[string]any{"model": "openai/stub"}))), &took)
	if took.Completion < 3 || took.Completion > 8 || took.Following > 4 || took.Chat > 4 || took.AGUI > 4 || took.MCP > 4 {
		t.Errorf("%+v", took)
	}
}
