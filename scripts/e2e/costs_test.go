package e2e

import (
	"net/http"
	"strings"
	"testing"

	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit/openaistub"
)

// runCosts contains the costs of a run.
type runCosts struct {
	Status string `json:"status"`
	Usage  struct {
		InputTokens, OutputTokens, CostMicros int64
		Model                                 string
	} `json:"usage"`
	ToolCalls []struct{ Name, Status string } `json:"toolCalls"`
	Error     *struct{ Code string }          `json:"error"`
}

// priced fails the test unless the run's cost matches its tokens. The price is 1 for a million
// input tokens, and 2 for a million output tokens.
func (s runCosts) priced(t *testing.T) {
	t.Helper()
	if s.Usage.InputTokens == 0 || s.Usage.OutputTokens == 0 || s.Usage.CostMicros != s.Usage.InputTokens+2*s.Usage.OutputTokens || s.Usage.Model != modelName {
		t.Errorf("usage = %+v", s.Usage)
	}
}

// TestCostsAndCaps checks that the costs of runs follow from the configured price table, and that
// the configured limits stop runs.
func TestCostsAndCaps(t *testing.T) {
	t.Parallel()
	receiver := newTill(t)
	c := newCluster(t, "OUTBOUND_ALLOW="+receiver.host, "MODEL_PRICES=openai/*=1/2", "RUN_MAX_TURNS=3")
	endless := func(req openaistub.Request) (openaistub.Reply, bool) {
		if !strings.HasPrefix(req.Prompt(), "endless") {
			return kit.Pays(req)
		}
		return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: "c", Name: "payByKey", Arguments: `{"bill":"endless"}`}}}, true
	}

	c.model.follow(endless)
	in := c.ingress(t)
	worker := c.worker(t)
	owner := signUp(t, in.url).paying(t, receiver.url, map[string]any{"approval": "unsafe"})
	var r runCosts
	owner.post(t.Context(), trigger{message: "what does this cost?"}).want(t, http.StatusOK).into(t, &r)
	r.priced(t)

	r = runCosts{}
	owner.post(t.Context(), trigger{message: "endless"}).want(t, http.StatusOK).into(t, &r)
	r.priced(t)
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "turn_limit" {
		t.Errorf("the run was not stopped by its limit: %+v", r)
	}

	// A cancelled run still shows the costs that it caused before the cancellation.
	waiting := owner.enqueue(t, trigger{message: bill{"payOnce", "cancelled"}.message()})
	owner.awaitAction(t, waiting)
	r = runCosts{}
	owner.get(t.Context(), "/api/runs?id="+waiting).want(t, http.StatusOK).into(t, &r)
	r.priced(t)
	r = runCosts{}
	owner.send(t, http.MethodPost, in.url+"/api/runs?id="+waiting+"&action=cancel", nil).want(t, http.StatusOK).into(t, &r)
	r.priced(t)

	worker.Term()
	if err := worker.Wait(requestTimeout); err != nil {
		t.Fatal(err)
	}

	c.worker(t, "RUN_MAX_COST=0.000001") // RUN_MAX_COST is the price of one input token
	r = runCosts{}
	owner.post(t.Context(), trigger{message: "endless again"}).want(t, http.StatusOK).into(t, &r)
	r.priced(t)
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "cost_limit" {
		t.Errorf("the run was not stopped by its limit: %+v", r)
	}
}
