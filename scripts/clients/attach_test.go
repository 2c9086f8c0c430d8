package clients

import (
	"net/http"
	"testing"
)

// TestAttach aborts a client's request, while the run that the request started continues. When the
// client retries the request, the retry waits for the same run, so the model is called only once.
func TestAttach(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := withTestEnv(t)
	agent := s.agent(t, map[string]any{"model": "openai/stub"})
	message := "slowly: one two three four five six seven eight nine ten, and it is not over yet, " + agent
	door := s.faults(t).DropWhen(func() bool { return s.model.Count(message) > 0 })
	var output struct{ Text, RunID string }
	decode(t, []byte(s.node(t, "attach.mjs", "PARLEY_BASE_URL="+door.URL, "AGENT_ID="+agent, "MESSAGE="+message)), &output)
	if want := "echo: " + message; output.Text != want {
		t.Errorf("%q, want %q", output.Text, want)
	}
	if sent := door.Requests(); len(sent) != 2 || door.Faults() != 1 || sent[0].IdempotencyKey != "attach-1" || sent[1].IdempotencyKey != "attach-1" {
		t.Errorf("%+v", sent)
	}

	var runs struct{ Data []struct{ ID, Status string } }
	s.call(t, http.MethodGet, "/api/runs?agentId="+agent, nil, &runs)
	if n := s.model.Count(message); n != 1 || len(runs.Data) != 1 || runs.Data[0].ID != output.RunID || runs.Data[0].Status != "completed" {
		t.Errorf("model calls = %d, runs = %+v; the client got run %s", n, runs.Data, output.RunID)
	}
}
