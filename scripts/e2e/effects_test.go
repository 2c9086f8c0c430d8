package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// paying creates an agent with the tools of a till. The options are further settings of its tools.
func (a account) paying(t *testing.T, url string, options map[string]any) account {
	t.Helper()
	tools := map[string]any{"enabled": true, "endpoints": kit.PayEndpoints(url)}
	maps.Copy(tools, options)
	a.agent = api.CreateAgent(t, a.url, a.key, map[string]any{
		"name": "Payer", "systemPrompt": "Pay.", "model": modelName, "tools": map[string]any{"httpRequest": tools},
	})
	return a
}

// bill is a payment that a message requests. The field point distinguishes payments by the same
// tool.
type bill struct{ tool, point string }

func (b bill) name() string    { return b.tool + "-" + b.point }
func (b bill) message() string { return fmt.Sprintf("pay %s %s", b.tool, b.name()) }

// decide sends a person's decision about a tool call of a waiting run.
func (a account) decide(t *testing.T, id, decision, callID string) api.Answer {
	t.Helper()
	return a.send(t, http.MethodPost, a.url+"/api/runs?id="+id+"&action="+decision+"&toolCallId="+callID, nil)
}

// awaitAction waits until a run requires a person's decision, and returns the run.
func (a account) awaitAction(t *testing.T, id string) api.Run {
	t.Helper()
	var r api.Run
	testkit.Poll(t, 200*time.Millisecond, 30*time.Second, "run "+id+" waits for a person", func() bool {
		r = api.Run{}
		a.get(t.Context(), "/api/runs?id="+id).Want(t, http.StatusOK).Into(t, &r)
		if api.Terminal(r.Status) {
			t.Fatalf("the run ended instead of waiting for a person: %+v", r)
		}
		return r.RequiredAction != nil
	})
	return r
}

// approvals approves and rejects tool calls. The receiver gets no request before the decision,
// one request for an approved call, and none for a rejected call.
func approvals(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	receiver := newTill(t)
	s.model.follow(kit.Pays)
	in := s.first
	owner := signUp(t, in.url).paying(t, receiver.url, map[string]any{"approval": "unsafe"})
	owner.post(t.Context(), trigger{message: bill{"payByKey", "free"}.message()}).Want(t, http.StatusOK) // only unsafe calls need approval

	for decision, want := range map[string]struct {
		effects int
		says    string
	}{"approve": {1, `"paid":true`}, "deny": {0, "refused"}} {
		b := bill{"payOnce", decision}
		began := time.Now()
		waiting := owner.start(t.Context(), trigger{message: b.message(), key: b.name()})
		got := awaitAnswer(t, waiting, 20*time.Second).Want(t, http.StatusAccepted)
		took := time.Since(began)
		var r api.Run
		got.Into(t, &r)
		if r.Status != "requires_action" || r.RequiredAction == nil || r.RequiredAction.Kind != "approval" {
			t.Fatalf("the waiting request got a response: %s", got.Body)
		}
		if left := time.Until(r.RequiredAction.ExpiresAt); left < 23*time.Hour || left > 24*time.Hour || took > testkit.Within(15*time.Second) {
			t.Errorf("response after %s, with %s left for the decision", took, left)
		}
		if effects, _ := receiver.Of(b.name()); len(effects) != 0 {
			t.Fatalf("the request was sent before the approval: %+v", effects)
		}
		id, call := got.Run(t).ID, r.RequiredAction.ToolCallID
		events := owner.watch(t, id, "")
		for range 2 { // a repeated decision changes nothing
			owner.decide(t, id, decision, call).Want(t, http.StatusOK)
		}
		r = api.Run{}
		owner.result(t, id, 20*time.Second).Into(t, &r)
		if r.Status != "completed" || !strings.Contains(r.Message, want.says) || r.RequiredAction != nil {
			t.Errorf("%s: %+v", decision, r)
		}
		if effects, _ := receiver.Of(b.name()); len(effects) != want.effects {
			t.Errorf("%s: %d effects, want %d", decision, len(effects), want.effects)
		}
		if log := bytesFor(events.rest(t)); !strings.Contains(log, "run.requires_action") || !strings.Contains(log, "run.completed") {
			t.Errorf("%s: the stream contains %s", decision, log)
		}
		owner.decide(t, id, "approve", "call_other").Refused(t, http.StatusBadRequest, "invalid_request")
	}
}

// TestMissingToolWorker starts a run that calls a tool while there is no tool worker. The model
// gets an error as the result within two seconds, and the run continues.
func TestMissingToolWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.model.follow(func(req openaistub.Request) (openaistub.Reply, bool) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" {
			return openaistub.Reply{Text: "told: " + last.Content}, true
		}
		return kit.Pays(req)
	})

	in := c.ingress(t)
	c.worker(t, "ROLES=agent,sweep")
	owner := signUp(t, in.url).paying(t, "http://127.0.0.1:9", nil)
	for _, tool := range []string{"payOnce", "payByKey"} {
		began := time.Now()
		var r api.Run
		owner.post(t.Context(), trigger{message: bill{tool, "none"}.message()}).Want(t, http.StatusOK).Into(t, &r)
		if took := time.Since(began); took > testkit.Within(2500*time.Millisecond) || !strings.Contains(r.Message, "not available") || r.Status != "completed" {
			t.Errorf("%s: after %s: %+v", tool, took, r)
		}
	}
}
