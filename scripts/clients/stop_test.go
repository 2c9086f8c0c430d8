package clients

import (
	"strings"
	"testing"
)

// TestStop stops answers with clients of each protocol, and makes clients lose responses and retry.
// The script checks that the runs of stopped answers are cancelled, and that the run of another
// client is not.
func TestStop(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	agent := s.agent(t, map[string]any{"model": "openai/stub"})
	message := "slowly " + agent + " " + strings.TrimSpace(strings.Repeat("word ", 400)) // the proxy breaks the connection before the end of this answer
	leaving := s.faults(t).DropWhen(func() bool { return s.model.Count(message) > 0 })
	var took struct{ Completion, Following, Chat, AGUI, MCP float64 } // in seconds, until the run was cancelled or the next answer arrived
	decode(t, []byte(s.node(t, "stop.mjs", "STUB_ID="+agent, "LEAVING_URL="+leaving.URL, "RETRIED="+message)), &took)
	if n := s.model.Count(message); n != 2 || leaving.Faults() != 1 {
		t.Errorf("a silent retry: %d calls of the model, %d faults", n, leaving.Faults())
	}
	if took.Completion < 3 || took.Completion > 8 || took.Following > 4 || took.Chat > 4 || took.AGUI > 4 || took.MCP > 4 {
		t.Errorf("%+v", took)
	}
}
