package e2e

import (
	"net/http"
	"strings"
	"testing"

	"parley/scripts/internal/api"
	kit "parley/scripts/internal/cluster"
	"parley/shared/testkit/openaistub"
)

// priced fails the test unless the run's cost matches its tokens. The price is 1 for a million
// input tokens, and 2 for a million output tokens.
func priced(t *testing.T, s api.Run) {
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
	var r api.Run
	owner.post(t.Context(), trigger{message: "what does this cost?"}).Want(t, http.StatusOK).Into(t, &r)
	priced(t, r)

	r = api.Run{}
	owner.post(t.Context(), trigger{message: "endless"}).Want(t, http.StatusOK).Into(t, &r)
	priced(t, r)
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "turn_limit" {
		t.Errorf("the run was not stopped by its limit: %+v", r)
	}

	// A cancelled run still shows the costs that it caused before the cancellation.
	waiting := owner.enqueue(t, trigger{message: bill{"payOnce", "cancelled"}.message()})
	owner.awaitAction(t, waiting)
	r = api.Run{}
	owner.get(t.Context(), "/api/runs?id="+waiting).Want(t, http.StatusOK).Into(t, &r)
	priced(t, r)
	r = api.Run{}
	owner.send(t, http.MethodPost, in.url+"/api/runs?id="+waiting+"&action=cancel", nil).Want(t, http.StatusOK).Into(t, &r)
	priced(t, r)

	worker.Term()
	if err := worker.Wait(api.Timeout); err != nil {
		t.Fatal(err)
	}

	c.worker(t, "RUN_MAX_COST=0.000001") // RUN_MAX_COST is the price of one input token
	r = api.Run{}
	owner.post(t.Context(), trigger{message: "endless again"}).Want(t, http.StatusOK).Into(t, &r)
	priced(t, r)
	if r.Status != "failed" || r.Error == nil || r.Error.Code != "cost_limit" {
		t.Errorf("the run was not stopped by its limit: %+v", r)
	}
}
