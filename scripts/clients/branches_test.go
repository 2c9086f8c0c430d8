package clients

import "testing"

// TestBranches runs a script that continues sessions with the AI SDK's OpenAI provider, with
// useChat and with OpenAI's client. The script checks that each answer takes the earlier messages
// into account.
func TestBranches(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	var got struct{ Requests int }
	decode(t, []byte(s.node(t, "branches.mjs", "STUB_ID="+s.agent(t, map[string]any{"model": "openai/stub"}))), &got)
	if got.Requests != 6 {
		t.Errorf("%d requests of the provider", got.Requests)
	}
}
