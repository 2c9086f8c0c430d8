package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// buysFlour is the script of a model that calls a tool of the client and a tool of the agent in one
// turn, and then answers with the last result.
func buysFlour(req openaistub.Request) (openaistub.Reply, bool) {
	name, found := strings.CutPrefix(req.Prompt(), "buy flour for ")
	if !found {
		return openaistub.Reply{}, false
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" {
		return openaistub.Reply{Text: "done: " + last.Content}, true
	}
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{
		{ID: "call_stock", Name: "stock", Arguments: `{"item":"flour"}`},
		{ID: "call_pay", Name: "payByKey", Arguments: `{"bill":"` + name + `"}`},
	}}, true
}

// buyer is an account whose chats provide the tool stock, and whose agent has budgets.
type buyer struct {
	account
	budgets map[string]string // ids, by metric
}

// buy starts a chat. A second call with the same name repeats the request.
func (b buyer) buy(t *testing.T, name string) api.Answer {
	t.Helper()
	return api.Send(t.Context(), http.MethodPost, b.url+"/api/agents?action=chat&id="+b.agent,
		map[string]string{"x-api-key": b.key, "Idempotency-Key": name}, map[string]any{
			"sessionId": name, "message": "buy flour for " + name, "tools": []any{map[string]any{"name": "stock"}},
		})
}

// waits starts a chat, and returns its run, which must wait for the client's tool after the agent's
// tool has been called.
func (b buyer) waits(t *testing.T, name string, receiver *till) (r api.Run) {
	t.Helper()
	got := b.buy(t, name).Want(t, http.StatusAccepted)
	got.Into(t, &r)
	if r.Status != "requires_action" || r.RequiredAction == nil || r.RequiredAction.Kind != "client_tools" ||
		len(r.RequiredAction.Calls) != 1 || r.RequiredAction.Calls[0].Name != "stock" || r.Usage.Tokens() == 0 {
		t.Fatalf("%s", got.Body)
	}
	if effects, _ := receiver.Of(name); len(effects) != 1 {
		t.Fatalf("the agent's tool was called %d times before the run waits, want 1", len(effects))
	}
	return r
}

// results sends the result of the client's tool twice, like a client that has lost the first
// response. It returns the finished run.
func (b buyer) results(t *testing.T, waiting api.Run) (r api.Run) {
	t.Helper()
	body := map[string]any{"results": []any{map[string]any{"toolCallId": waiting.RequiredAction.Calls[0].ToolCallID, "output": map[string]any{"sacks": 7}}}}
	for range 2 {
		b.send(t, http.MethodPost, b.url+"/api/runs?action=tool-results&id="+waiting.ID, body).Want(t, http.StatusOK)
	}
	b.result(t, waiting.ID, 30*time.Second).Into(t, &r)
	return r
}

// limit changes the limit of a budget.
func (b buyer) limit(t *testing.T, metric string, limit int64) {
	t.Helper()
	b.send(t, http.MethodPut, b.url+"/api/budgets?id="+b.budgets[metric], map[string]any{"limit": limit}).Want(t, http.StatusOK)
}

// used returns the used amount of a budget. Nothing may be reserved, because no call is in progress.
func (b buyer) used(t *testing.T, metric string) int64 {
	t.Helper()
	var budget struct{ Used, Reserved int64 }
	b.get(t.Context(), "/api/budgets?id="+b.budgets[metric]).Want(t, http.StatusOK).Into(t, &budget)
	if budget.Reserved != 0 {
		t.Errorf("%s: %d are reserved while no call is in progress", metric, budget.Reserved)
	}
	return budget.Used
}

// budgetsOfClientTools exhausts a budget while runs wait for results of the client. The service
// accepts the results. A run whose next model call does not fit into the budget then fails, and a
// run with a higher budget continues. Each model call, each run and each effect counts once.
func budgetsOfClientTools(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	receiver := newTill(t)
	s.model.follow(buysFlour)
	in := s.first
	b := buyer{account: signUp(t, in.url).paying(t, receiver.url, nil), budgets: map[string]string{}}
	for metric, limit := range map[string]int{"tokens": 1_000_000, "costMicros": 1_000_000_000, "runs": 2} {
		var made struct{ ID string }
		b.send(t, http.MethodPost, in.url+"/api/budgets", map[string]any{
			"scope": "agent", "subjectId": b.agent, "metric": metric, "period": "month", "limit": limit,
		}).Want(t, http.StatusCreated).Into(t, &made)
		b.budgets[metric] = made.ID
	}

	exhausted, continued := b.waits(t, "exhausted", receiver), b.waits(t, "continued", receiver)
	spent := exhausted.Usage.Tokens() + continued.Usage.Tokens()
	if got := b.used(t, "tokens"); got != spent {
		t.Fatalf("%d tokens are used, want %d", got, spent)
	}
	b.limit(t, "tokens", spent)
	b.limit(t, "runs", 100)
	b.buy(t, "another").Refused(t, http.StatusTooManyRequests, "budget_exceeded")

	// The waiting run's next model call does not fit into the budget. The run fails without this
	// call.
	r := b.results(t, exhausted)
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "budget_exceeded" || r.Usage != exhausted.Usage {
		t.Errorf("a waiting run without budget: %+v", r)
	}
	if got, calls := b.used(t, "tokens"), s.model.count("buy flour for exhausted"); got != spent || calls != 1 {
		t.Errorf("%d tokens are used after %d model calls, want %d after 1", got, calls, spent)
	}
	b.buy(t, "exhausted").Replayed(t) // a replay needs no budget

	b.limit(t, "tokens", 1_000_000)
	r = b.results(t, continued)
	if r.Status != "completed" || !strings.Contains(r.Message, `"sacks":7`) || r.Usage.Tokens() <= continued.Usage.Tokens() {
		t.Errorf("a waiting run with budget: %+v", r)
	}
	seen := s.model.historyFor("buy flour for continued")
	if !strings.Contains(seen, `"paid":true`) || !strings.Contains(seen, `"sacks":7`) {
		t.Errorf("the model received %s", seen)
	}
	if !slices.EqualFunc(r.ToolCalls, []string{"payByKey", "stock"}, func(call api.ToolCall, name string) bool {
		return call.Name == name && call.Status == "completed"
	}) {
		t.Errorf("the calls are %+v", r.ToolCalls)
	}
	b.buy(t, "continued").Replayed(t)

	// The agent's budgets and its usage report contain the usage of both runs.
	spent = exhausted.Usage.Tokens() + r.Usage.Tokens()
	cost := exhausted.Usage.CostMicros + r.Usage.CostMicros
	for metric, want := range map[string]int64{"tokens": spent, "costMicros": cost, "runs": 2} {
		if got := b.used(t, metric); got != want || want == 0 {
			t.Errorf("%s: %d are used, want %d", metric, got, want)
		}
	}
	var report struct {
		Totals struct{ Runs, InputTokens, OutputTokens, CostMicros int64 }
	}
	got := b.get(t.Context(), "/api/usage?agentId="+b.agent).Want(t, http.StatusOK)
	got.Into(t, &report)
	if report.Totals.Runs != 2 || report.Totals.InputTokens+report.Totals.OutputTokens != spent || report.Totals.CostMicros != cost {
		t.Errorf("want 2 runs, %d tokens and a cost of %d: %s", spent, cost, got.Body)
	}
	for _, name := range []string{"exhausted", "continued"} {
		if effects, _ := receiver.Of(name); len(effects) != 1 {
			t.Errorf("%s: %d effects", name, len(effects))
		}
	}
	if n := s.model.count("buy flour for continued"); n != 2 {
		t.Errorf("%d model calls, want 2", n)
	}
}

// asksTwice is the script of a model that calls the client's tool until two results have arrived,
// and then repeats the results.
func asksTwice(req openaistub.Request) (openaistub.Reply, bool) {
	if !strings.HasPrefix(req.Prompt(), "ask twice") {
		return openaistub.Reply{}, false
	}
	var results []string
	for _, m := range req.Messages {
		if m.Role == "tool" {
			results = append(results, m.Content)
		}
	}
	if len(results) < 2 {
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "call_stock", Name: "stock", Arguments: `{}`}}}, true
	}
	return openaistub.Reply{Text: strings.Join(results, " and ")}, true
}

// TestWaitsForClientTools checks what the documentation says about runs that wait for tools of the
// client. The worker has one slot.
func TestWaitsForClientTools(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "WORKER_CONCURRENCY=1")
	c.model.follow(asksTwice)
	in := c.ingress(t)
	c.worker(t)
	owner := signUp(t, in.url)
	tools := []any{map[string]any{"name": "stock"}}
	post := func(session, message string, more map[string]any) api.Answer {
		body := map[string]any{"sessionId": session, "message": message}
		maps.Copy(body, more)
		return api.Send(t.Context(), http.MethodPost, in.url+"/api/agents?action=chat&id="+owner.agent,
			map[string]string{"x-api-key": owner.key, "Prefer": "respond-async"}, body)
	}
	var r api.Run
	waits := func(id string) (callID string) {
		t.Helper()
		testkit.Poll(t, 200*time.Millisecond, 30*time.Second, "run "+id+" waits for the client", func() bool {
			r = api.Run{}
			owner.get(t.Context(), "/api/runs?id="+id).Want(t, http.StatusOK).Into(t, &r)
			return r.RequiredAction != nil
		})
		return r.RequiredAction.Calls[0].ToolCallID
	}
	results := func(id, callID string, output any, failed bool) api.Answer {
		return owner.send(t, http.MethodPost, in.url+"/api/runs?action=tool-results&id="+id, map[string]any{
			"results": []any{map[string]any{"toolCallId": callID, "output": output, "isError": failed}},
		})
	}

	// A waiting run uses no worker: the only slot is free for another session. Later messages of
	// its own session wait.
	id := post("s", "ask twice", map[string]any{"tools": tools}).Want(t, http.StatusAccepted).Run(t).ID
	first := waits(id)
	if left := time.Until(r.RequiredAction.ExpiresAt); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("%s are left for the results, want 24 hours", left)
	}
	later := post("s", "later", nil).Want(t, http.StatusAccepted).Run(t).ID
	other := post("other", "other", nil).Want(t, http.StatusAccepted).Run(t).ID
	owner.result(t, other, 30*time.Second).Completed(t, echoed("other"), 1)
	if n := c.model.count("later"); n != 0 {
		t.Errorf("a later message of the session did not wait: %d model calls", n)
	}

	// A client may repeat the same result. A different result for the same call, and a result that
	// the run does not wait for, are rejected.
	results(id, "call_unknown", 7, false).Refused(t, http.StatusBadRequest, "invalid_request")
	for range 2 {
		results(id, first, "sold out", true).Want(t, http.StatusOK)
	}
	results(id, first, "sold out", false).Refused(t, http.StatusConflict, "version_conflict")
	second := first
	for second == first { // until the run calls the tool again
		second = waits(id)
	}
	results(id, second, map[string]any{"sacks": 7}, false).Want(t, http.StatusOK)
	r = api.Run{}
	owner.result(t, id, 30*time.Second).Into(t, &r)
	if want := `"failed":true,"output":"sold out"`; r.Status != "completed" || !strings.Contains(r.Message, want) || !strings.Contains(r.Message, `"sacks":7`) {
		t.Errorf("the model received no failure and no result: %+v", r)
	}
	owner.result(t, later, 30*time.Second).Completed(t, echoed("later"), 1)

	// A run whose tools are in Parley's own format can stream its events in another format.
	events := make(chan api.Answer, 1)
	go func() {
		events <- api.Send(t.Context(), http.MethodPost, in.url+"/api/agents?action=chat&format=ai-sdk&id="+owner.agent,
			map[string]string{"x-api-key": owner.key}, map[string]any{"sessionId": "sdk", "message": "ask twice", "tools": tools})
	}()
	var list struct{ Data []api.Run }
	testkit.Poll(t, 100*time.Millisecond, 30*time.Second, "a streamed run waits for the client", func() bool {
		owner.get(t.Context(), "/api/runs?waitsFor=client").Want(t, http.StatusOK).Into(t, &list)
		return len(list.Data) == 1
	})
	first = waits(list.Data[0].ID)
	results(list.Data[0].ID, first, 1, false).Want(t, http.StatusOK)
	for second = first; second == first; {
		second = waits(list.Data[0].ID)
	}
	results(list.Data[0].ID, second, 2, false).Want(t, http.StatusOK)
	streamed := string(awaitAnswer(t, events, 30*time.Second).Want(t, http.StatusOK).Body)
	if strings.Count(streamed, `"type":"data-required-action"`) != 2 || !strings.Contains(streamed, `"kind":"client_tools"`) ||
		!strings.Contains(streamed, `"type":"finish"`) {
		t.Errorf("the stream is %s", streamed)
	}

	trigger := owner.send(t, http.MethodPost, in.url+"/api/internal/run-automation",
		map[string]any{"target": owner.agent, "input": map[string]any{"message": "ask twice"}, "tools": tools})
	r = api.Run{}
	trigger.Want(t, http.StatusAccepted).Into(t, &r)
	if r.Status != "requires_action" || r.RequiredAction.Kind != "client_tools" {
		t.Errorf("a trigger: %s", trigger.Body)
	}
}
