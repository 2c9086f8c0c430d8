package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// strikes contains the points of a side-effecting call at which the test kills or freezes a worker.
// At arrived, the receiver has the request but has not counted the effect. At counted, it has
// counted the effect but has not answered. The other points precede a statement of the service:
// entry creates the tool ledger's entry, flip changes the entry to sending, outcome stores the
// outcome in the tool ledger, and step stores it in the run's journal.
//
// Each element is a list of points. The worker is killed or frozen when there are runs at each
// point of the list. A worker writes the entries and steps of all its runs with one statement after
// the other, so only the last point of a list may precede a statement.
var strikes = [][]string{{"arrived", "counted", "entry"}, {"flip"}, {"outcome"}, {"step"}}

// paying creates an agent with two endpoints of a till. The endpoint payOnce must not be called
// twice; payByKey honours idempotency keys.
func (a account) paying(t *testing.T, url string, options map[string]any) account {
	t.Helper()
	endpoint := func(name, effect string) map[string]any {
		return map[string]any{
			"name": name, "description": "Pays.", "method": "POST", "url": url + "/" + name, "sideEffect": effect,
			"inputSchema": map[string]any{
				"type": "object", "properties": map[string]any{"point": map[string]any{"type": "string"}, "bill": map[string]any{"type": "string"}},
				"required": []string{"bill"},
			},
		}
	}

	tools := map[string]any{"enabled": true, "endpoints": []any{endpoint("payOnce", "unsafe"), endpoint("payByKey", "idempotent")}}
	maps.Copy(tools, options)
	var agent struct {
		ID string `json:"id"`
	}

	a.send(t, http.MethodPost, a.url+"/api/agents", map[string]any{
		"name": "Payer", "systemPrompt": "Pay.", "model": modelName, "allowedCallers": []string{"user", "system"},
		"tools": map[string]any{"httpRequest": tools},
	}).want(t, http.StatusCreated).into(t, &agent)

	a.agent = agent.ID
	return a
}

// bill is a payment that a message requests. The field point selects the point at which the payment
// waits, so that a process can be killed there.
type bill struct{ tool, point string }

func (b bill) name() string    { return b.tool + "-" + b.point }
func (b bill) message() string { return fmt.Sprintf("pay %s %s", b.tool, b.point) }

// pays is the script of the model. The model calls the tool that pays the bill, calls it again if
// no tool worker was available, and then reports the result.
func pays(req openaistub.Request) (openaistub.Reply, bool) {
	var b bill
	if n, _ := fmt.Sscanf(req.Prompt(), "pay %s %s", &b.tool, &b.point); n != 2 {
		return openaistub.Reply{}, false
	}

	last := req.Messages[len(req.Messages)-1]
	if last.Role == "tool" && !strings.Contains(last.Content, "not available") {
		return openaistub.Reply{Text: "done: " + last.Content}, true
	}

	arguments, err := json.Marshal(map[string]string{"bill": b.name(), "point": b.point})
	if err != nil {
		return openaistub.Reply{}, false
	}
	// The model uses the same call ID in every turn. The service must distinguish these calls
	// nevertheless.
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_pay", Name: b.tool, Arguments: string(arguments)}}}, true
}

// TestChaosEffects kills or freezes the agent worker or the tool worker while runs are at each
// point of a side-effecting call. The receiver never counts two effects of one call, and calls with
// an unknown outcome wait for a person's decision.
func TestChaosEffects(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"agent", "tool"} {
		for _, signal := range []string{"kill", "stop"} {
			t.Run(signal+"_the_"+role+"_worker", func(t *testing.T) {
				t.Parallel()
				strikeEffects(t, role, signal)
			})
		}
	}
}

// strikeEffects sends the signal to the worker with the given role, once for each list of strikes,
// when runs are at the points of the list. After other workers have finished the runs, it checks
// the runs' effects.
func strikeEffects(t *testing.T, role, signal string) {
	t.Helper()
	receiver := newTill(t)
	c := newCluster(t, "OUTBOUND_ALLOW="+receiver.host, "LIMIT_USER=50000", "LIMIT_SYSTEM=60000") // for polling every run
	// On a slow machine, it takes a long time until every run has reached its point and the next
	// worker is ready. Statements that are blocked meanwhile must not time out.
	c.settings = append(c.settings, "DATABASE_URL="+c.postgres.DSN()+"&statement_timeout=180000")
	c.model.follow(pays)
	in := c.ingress(t)
	gate := newGates(t, c, "entry", "flip", "outcome", "step")
	c.worker(t, "ROLES=sweep")
	workers := map[string]*testkit.Process{"agent": c.worker(t, "ROLES=agent"), "tool": c.worker(t, "ROLES=tool")}
	owner := signUp(t, in.url).paying(t, receiver.url, nil)
	runs := map[bill]string{}
	var victims []*testkit.Process
	for _, points := range strikes {
		for _, point := range points {
			for _, tool := range []string{"payOnce", "payByKey"} {
				b := bill{tool, point}
				runs[b] = owner.enqueue(t, trigger{message: b.message(), key: b.name()})
			}
			eventually(t, 60*time.Second, "the runs at "+point, func() bool { return receiver.waiting(point) == 2 || gate.waiting(t, point) > 0 })
		}
		victims = append(victims, workers[role])
		if signal == "kill" {
			workers[role].Kill9()
		} else {
			workers[role].Stop()
		}
		workers[role] = c.worker(t, "ROLES="+role)
		gate.openPoint(t, points[len(points)-1])
		receiver.release()
	}
	asked := 0
	for b, id := range runs {
		asked += settleRun(t, c, owner, receiver, b, id)
	}
	if signal == "stop" {
		for _, victim := range victims {
			victim.Cont()
		}
		owner.enqueue(t, trigger{message: "alive"})
		eventually(t, 30*time.Second, "all runs have finished", func() bool {
			return c.number(t, "SELECT count(*) FROM open_runs") == 0
		})
	}
	for b := range runs {
		effects, keys := receiver.of(b.name())
		if keys != 1 || b.tool == "payOnce" && len(effects) != 1 {
			t.Errorf("%s: effects = %d, keys = %d: %+v", b.name(), len(effects), keys, effects)
		}
	}
	t.Logf("%d of %d runs waited for a person", asked, len(runs))
}

// settleRun waits until a run has finished, and returns the number of decisions that the run
// required. It decides like a person who has asked the receiver whether the bill was paid.
func settleRun(t *testing.T, c *cluster, owner account, receiver *till, b bill, id string) (asked int) {
	t.Helper()
	var r waitingRun
	eventually(t, 3*lease, "run "+b.name()+" finishes or waits for a person", func() bool {
		r = waitingRun{}
		owner.get(t.Context(), "/api/runs?id="+id).want(t, http.StatusOK).into(t, &r)
		if r.RequiredAction == nil {
			return r.terminal()
		}
		if b.tool != "payOnce" || r.RequiredAction.Kind != "unknown_outcome" || r.RequiredAction.Name != b.tool {
			t.Fatalf("required action of %s = %+v", b.name(), r.RequiredAction)
		}
		decision := "resend"
		if effects, _ := receiver.of(b.name()); len(effects) > 0 {
			decision = "happened"
		}
		asked++
		owner.decide(t, id, decision, r.RequiredAction.ToolCallID).want(t, http.StatusOK)
		return false
	})
	if r.Status != "completed" || !strings.HasPrefix(r.Message, "done: ") {
		t.Errorf("%s: status %s, message %q, error %+v", b.name(), r.Status, r.Message, r.Error)
	}
	if n := c.number(t, "SELECT count(*) FROM effects WHERE run_id = $1 AND state IN ('ready', 'sending', 'awaiting')", id); n != 0 {
		t.Errorf("%s: open effects = %d, want 0", b.name(), n)
	}
	return asked
}

// waitingRun contains the fields of a waiting run that these tests read.
type waitingRun struct {
	Status         string `json:"status"`
	Message        string `json:"message"`
	Attempts       int    `json:"attempts"`
	Error          *struct{ Code, Message string }
	RequiredAction *struct {
		Kind       string          `json:"kind"`
		ToolCallID string          `json:"toolCallId"`
		Name       string          `json:"name"`
		Input      json.RawMessage `json:"input"`
		ExpiresAt  time.Time       `json:"expiresAt"`
	} `json:"requiredAction"`
	ToolCalls []struct {
		Name, Status  string
		Input, Output json.RawMessage
	} `json:"toolCalls"`
}

func (r waitingRun) terminal() bool {
	return r.Status == "completed" || r.Status == "failed" || r.Status == "cancelled" || r.Status == "timed_out"
}

// decide sends a person's decision about a tool call of a waiting run.
func (a account) decide(t *testing.T, id, decision, callID string) answer {
	t.Helper()
	return a.send(t, http.MethodPost, a.url+"/api/runs?id="+id+"&action="+decision+"&toolCallId="+callID, nil)
}

// awaitAction waits until a run requires a person's decision, and returns the run.
func (a account) awaitAction(t *testing.T, id string) waitingRun {
	t.Helper()
	var r waitingRun
	lookEach(t, 200*time.Millisecond, 30*time.Second, "run "+id+" waits for a person", func() bool {
		r = waitingRun{}
		a.get(t.Context(), "/api/runs?id="+id).want(t, http.StatusOK).into(t, &r)
		if r.terminal() {
			t.Fatalf("the run ended instead of waiting for a person: %+v", r)
		}
		return r.RequiredAction != nil
	})
	return r
}

// TestApprovals approves and rejects tool calls. The receiver gets no request before the decision,
// one request for an approved call, and none for a rejected call.
func TestApprovals(t *testing.T) {
	t.Parallel()
	receiver := newTill(t)
	c := newCluster(t, "OUTBOUND_ALLOW="+receiver.host)
	c.model.follow(pays)
	in := c.ingress(t)
	c.worker(t)
	owner := signUp(t, in.url).paying(t, receiver.url, map[string]any{"approval": "unsafe"})
	owner.post(t.Context(), trigger{message: bill{"payByKey", "free"}.message()}).want(t, http.StatusOK) // only unsafe calls need approval

	for decision, want := range map[string]struct {
		effects int
		says    string
	}{"approve": {1, `"paid":true`}, "deny": {0, "refused"}} {
		b := bill{"payOnce", decision}
		began := time.Now()
		waiting := owner.start(t.Context(), trigger{message: b.message(), key: b.name()})
		got := awaitAnswer(t, waiting, 20*time.Second).want(t, http.StatusAccepted)
		took := time.Since(began)
		var r waitingRun
		got.into(t, &r)
		if r.Status != "requires_action" || r.RequiredAction == nil || r.RequiredAction.Kind != "approval" {
			t.Fatalf("the waiting request got a response: %s", got.body)
		}
		if left := time.Until(r.RequiredAction.ExpiresAt); left < 23*time.Hour || left > 24*time.Hour || took > testkit.Within(15*time.Second) {
			t.Errorf("response after %s, with %s left for the decision", took, left)
		}
		if effects, _ := receiver.of(b.name()); len(effects) != 0 {
			t.Fatalf("the request was sent before the approval: %+v", effects)
		}
		id, call := got.run(t).ID, r.RequiredAction.ToolCallID
		events := owner.watch(t, id, "")
		for range 2 { // a repeated decision changes nothing
			owner.decide(t, id, decision, call).want(t, http.StatusOK)
		}
		r = waitingRun{}
		owner.result(t, id, 20*time.Second).into(t, &r)
		if r.Status != "completed" || !strings.Contains(r.Message, want.says) || r.RequiredAction != nil {
			t.Errorf("%s: %+v", decision, r)
		}
		if effects, _ := receiver.of(b.name()); len(effects) != want.effects {
			t.Errorf("%s: %d effects, want %d", decision, len(effects), want.effects)
		}
		if log := bytesFor(events.rest(t)); !strings.Contains(log, "run.requires_action") || !strings.Contains(log, "run.completed") {
			t.Errorf("%s: the stream contains %s", decision, log)
		}
		owner.decide(t, id, "approve", "call_other").refused(t, http.StatusBadRequest, "invalid_request")
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
		return pays(req)
	})

	in := c.ingress(t)
	c.worker(t, "ROLES=agent,sweep")
	owner := signUp(t, in.url).paying(t, "http://127.0.0.1:9", nil)
	for _, tool := range []string{"payOnce", "payByKey"} {
		began := time.Now()
		var r waitingRun
		owner.post(t.Context(), trigger{message: bill{tool, "none"}.message()}).want(t, http.StatusOK).into(t, &r)
		if took := time.Since(began); took > testkit.Within(2500*time.Millisecond) || !strings.Contains(r.Message, "not available") || r.Status != "completed" {
			t.Errorf("%s: after %s: %+v", tool, took, r)
		}
	}
}
