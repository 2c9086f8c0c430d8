package crashpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// ratesRows are faults during a run that calls a tool of its client. Most runs call a tool of the
// agent in the same turn. Such a run passes some points twice: EffectAfter for both calls, ToolBefore
// and ToolAfter for both results, and PublishJobAfter, ClaimBefore and ClaimAfter again after the
// client has sent its result.
var ratesRows = []row{
	{name: "before the insert", tool: byKey, strikes: []strike{{ingress, failpoint.AcceptBefore, "kill"}}},
	{name: "after the commit, before the job message", tool: byKey, strikes: []strike{{ingress, failpoint.AcceptAfter, "kill"}}},
	{name: "after the job message", tool: byKey, strikes: []strike{{ingress, failpoint.PublishJobAfter, "kill:100ms"}}},
	{name: "before the claim", tool: byKey, strikes: []strike{{agent, failpoint.ClaimBefore, "kill"}}},
	{name: "after the claim", tool: byKey, strikes: []strike{{agent, failpoint.ClaimAfter, "kill"}}},
	{name: "before the model turn is journaled", tool: byKey, strikes: []strike{{agent, failpoint.TurnBefore, "kill"}}},
	{name: "after the model turn", tool: byKey, strikes: []strike{{agent, failpoint.TurnAfter, "kill"}}},
	{name: "between effect row and send", tool: byKey, strikes: []strike{{agent, failpoint.EffectAfter, "kill"}}},
	{name: "tool worker dies before the effect is marked as sending", tool: byKey, strikes: []strike{{tool, failpoint.SendBefore, "kill"}}},
	{name: "tool worker dies before the send", tool: byKey, strikes: []strike{{tool, failpoint.SendAfter, "kill"}}},
	{name: "tool worker dies before the outcome is stored", tool: byKey, strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}}},
	{name: "after the outcome is stored", tool: byKey, strikes: []strike{{tool, failpoint.OutcomeAfter, "kill"}}},
	{name: "before the agent's call is journaled", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "after the agent's call", tool: byKey, strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}, short: true},
	{name: "after the only call, of the client, is in the ledger", strikes: []strike{{agent, failpoint.EffectAfter, "kill"}}},
	{name: "after the client's call is in the ledger", tool: byKey, strikes: []strike{{agent, failpoint.EffectAfter, "kill@2"}}},
	{name: "a run waits for its client, without a notification", tool: byKey, strikes: []strike{{agent, failpoint.ParkAfter, "kill"}}},
	{name: "after the client's result, without a job message", tool: byKey, strikes: []strike{{ingress, failpoint.DecideAfter, "kill"}}},
	{
		name: "after the job message for the client's result", tool: byKey,
		strikes: []strike{{ingress, failpoint.PublishJobAfter, "kill:100ms@2"}},
	},
	{name: "before the claim with the client's result", tool: byKey, strikes: []strike{{agent, failpoint.ClaimBefore, "kill@2"}}},
	{name: "after the claim with the client's result", tool: byKey, strikes: []strike{{agent, failpoint.ClaimAfter, "kill@2"}}},
	{name: "before the only result, of the client, is journaled", strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "before the client's result is journaled", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "kill@2"}}},
	{name: "after the only result, of the client", strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}},
	{name: "after the client's result", tool: byKey, strikes: []strike{{agent, failpoint.ToolAfter, "kill@2"}}},
	{name: "before the final commit", tool: byKey, strikes: []strike{{agent, failpoint.FinishBefore, "kill"}}},
	{name: "after the final commit, before the result is published", tool: byKey, strikes: []strike{{agent, failpoint.FinishAfter, "kill"}}},
	{name: "after the result is published", tool: byKey, strikes: []strike{{agent, failpoint.DoneAfter, "kill:100ms"}}},
	{name: "ingress dies before it returns the answer", tool: byKey, strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}},
	{name: "a run is requeued, its job message lost", tool: byKey, strikes: []strike{
		{tool, failpoint.SendAfter, "kill"}, {agent, failpoint.RequeuedAfter, "kill"},
	}},
	{name: "sweeper dies after requeueing a run with the client's result", tool: byKey, strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill@2"}, {sweep, failpoint.ExpireAfter, "kill"},
	}},
	{name: "sweeper dies after dispatching a run with the client's result", tool: byKey, strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill@2"}, {sweep, failpoint.DispatchAfter, "kill"},
	}},
	{name: "sweeper dies before publishing the job for the client's result again", tool: byKey, strikes: []strike{
		{agent, failpoint.ClaimBefore, "kill@2"}, {sweep, failpoint.RedispatchAfter, "kill"},
	}},
	{name: "zombie with the client's call in the ledger", strikes: []strike{{agent, failpoint.EffectAfter, "stop"}}},
	{name: "zombie with both calls in the ledger", tool: byKey, strikes: []strike{{agent, failpoint.EffectAfter, "stop@2"}}},
	{name: "zombie with the agent's result", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "stop"}}},
	{name: "zombie with the client's result", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "stop@2"}}},
	{name: "zombie with the answer", tool: byKey, strikes: []strike{{agent, failpoint.FinishBefore, "stop"}}},
}

// slotPoints are the points at which a finished run frees its slot. The tools of the run make no
// difference there, so only TestRows has faults at these points.
var slotPoints = map[string]bool{string(failpoint.DispatchNextBefore): true, string(failpoint.DispatchNextAfter): true}

// TestEveryPointHasAMixedTurn checks that a run which calls a tool of the client and a tool of the
// agent in one turn has a fault at every failpoint.
func TestEveryPointHasAMixedTurn(t *testing.T) {
	t.Parallel()
	struck := map[string]bool{}
	for _, r := range ratesRows {
		for _, s := range r.strikes {
			struck[string(s.at)] = struck[string(s.at)] || r.tool != ""
		}
	}
	for name, value := range constants(t) {
		if !struck[value] && !slotPoints[value] {
			t.Errorf("no row with both tools has a fault at %s", name)
		}
	}
}

// Under faults, a turn calls both a tool of the client and a tool of the agent. The agent's tool is
// called first and has one effect. The usage is that of a run without a fault.
func TestToolsOfTheClient(t *testing.T) {
	t.Parallel()
	for _, r := range ratesRows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if !r.short {
				testkit.Long(t)
			}
			o := options{armed: map[role]string{}}
			for _, s := range r.strikes {
				o.armed[s.role] = string(s.at) + "=" + s.does
			}
			b := newTestEnv(t, o)
			calls := b.beginUntil(r.strikes[0], call{name: "struck", tool: r.tool, chat: true, rates: true})
			beside := func() { calls = append(calls, b.begin(call{name: "beside", tool: r.tool, chat: true, rates: true})) }
			during, after := beside, func() {}
			if r.strikes[0].role == tool { // without a tool worker, the call of the agent's tool would fail
				during, after = after, beside
			}
			zombies := b.replaceStruck(r.strikes, during)
			after()
			all := b.settleAll(func() []settled { return b.resume(zombies, "") }, calls...)

			want := []string{r.tool, rate}
			if r.tool == "" {
				want = want[1:]
			}
			for _, s := range all[:len(calls)] {
				for i, name := range want {
					if len(s.ToolCalls) != len(want) || s.ToolCalls[i].Name != name || s.ToolCalls[i].Status != "completed" {
						t.Fatalf("%s: calls %+v", s.name, s.ToolCalls)
					}
				}
				if s.asked > 0 {
					t.Errorf("%s: a person decided %d times", s.name, s.asked)
				}
			}
			struck, other := all[len(calls)-2], all[len(calls)-1]
			if struck.Usage != other.Usage {
				t.Errorf("the usage is %v, and without a fault %v", struck.Usage, other.Usage)
			}
		})
	}
}

// beginUntil begins a call. If the call finishes without the fault s, beginUntil begins another
// call, at most 20 in all. Some faults occur only if a request waits for the answer, and on a busy
// machine a run may finish before its client requests the answer. The names of the calls have the
// same length, so that their runs have the same usage.
func (b *testEnv) beginUntil(s strike, c call) (calls []<-chan settled) {
	b.Helper()
	name := c.name
	for range 20 {
		done := b.begin(c)
		calls = append(calls, done)
		b.eventually(fmt.Sprintf("%s comes by %s, or %s finishes", s.role, s.at, c.name), func() bool {
			return len(done) > 0 || reached(b.parts[s.role], s.at)
		})
		if reached(b.parts[s.role], s.at) {
			break
		}
		c.name = fmt.Sprintf("%s%02d", name[:len(name)-2], len(calls))
	}
	return calls
}

// On /v1, a turn that calls both tools ends the run. The client's next request, which contains the
// result of the client's tool, starts another run. The agent's tool was called in the first run,
// and the second run does not repeat the call.
func TestToolsOfTheClientOnV1(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	for _, r := range []row{
		{name: "after the model turn", strikes: []strike{{agent, failpoint.TurnAfter, "kill"}}},
		{name: "tool worker dies before the outcome is stored", strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}}},
		{name: "after the agent's call", strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}},
		{name: "before the final commit", strikes: []strike{{agent, failpoint.FinishBefore, "kill"}}},
		{name: "ingress dies before it returns the answer", strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			strike := r.strikes[0]
			b := newTestEnv(t, options{armed: map[role]string{strike.role: string(strike.at) + "=" + strike.does}})
			user := map[string]any{"role": "user", "content": call{name: "v1", tool: byKey, rates: true}.message()}
			first := make(chan completion, 1)
			go func() { first <- b.complete("first", user) }()
			b.replaceStruck(r.strikes, func() {})

			turn := <-first
			calls, _ := turn.Message["tool_calls"].([]any)
			if turn.FinishReason != "tool_calls" || len(calls) != 1 {
				t.Fatalf("the first answer is %+v", turn)
			}
			result := map[string]any{"role": "tool", "tool_call_id": calls[0].(map[string]any)["id"], "content": `{"rate":3}`}
			last := b.complete("second", user, turn.Message, result)
			if text, _ := last.Message["content"].(string); last.FinishReason != "stop" || !strings.HasPrefix(text, "done: ") {
				t.Errorf("the second answer is %+v", last)
			}
			if _, keys := b.till.Of("v1"); keys != 1 {
				t.Errorf("the agent's call has %d effects", keys)
			}
			if n := b.number(`SELECT count(*) FROM runs`); n != 2 {
				t.Errorf("%d runs for two requests", n)
			}
			if n := b.number(`SELECT count(*) FROM open_runs`); n != 0 {
				t.Errorf("%d runs are open", n)
			}
		})
	}
}

// completion is a choice in a response of /v1/chat/completions.
type completion struct {
	Message      map[string]any `json:"message"`
	FinishReason string         `json:"finish_reason"`
}

// complete sends a request with an idempotency key, and repeats the request until it gets an
// answer. It is safe for concurrent use.
func (b *testEnv) complete(key string, messages ...map[string]any) (got completion) {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()

	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": rate}}}
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()

	for ctx.Err() == nil {
		sent := b.postTo(ctx, "/v1/chat/completions", map[string]string{"Idempotency-Key": key, "Authorization": "Bearer " + b.key},
			map[string]any{"model": b.agentID, "messages": messages, "tools": tools})
		if sent.Err == nil && sent.Status == http.StatusOK {
			var body struct {
				Choices []completion `json:"choices"`
			}
			if err := json.Unmarshal(sent.Body, &body); err != nil || len(body.Choices) != 1 {
				b.Errorf("%s: %v: %s", key, err, sent.Body)
				return got
			}
			return body.Choices[0]
		}
		if sent.Err == nil && sent.Status < http.StatusInternalServerError {
			b.Errorf("%s: %d: %s", key, sent.Status, sent.Body)
			return got
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	b.Errorf("%s: no answer within %s", key, patience)
	return got
}

// sendRates sends the results of the client's tool twice, as after a lost response. It fails the
// test if the agent's tool should have been called before, but was not.
func (b *testEnv) sendRates(ctx context.Context, r api.Run, c call) {
	if payments, _ := b.till.Of(c.name); c.tool != "" && len(payments) == 0 {
		b.Errorf("%s: the run waits for its client before the agent's own call", c.name)
	}
	var results []any
	for _, call := range r.RequiredAction.Calls {
		results = append(results, map[string]any{"toolCallId": call.ToolCallID, "output": map[string]any{"rate": 3}})
	}
	for range 2 {
		got := b.postTo(ctx, "/api/runs?id="+r.ID+"&action=tool-results", nil, map[string]any{"results": results})
		if got.Err == nil && got.Status != http.StatusOK && got.Status != http.StatusServiceUnavailable {
			b.Errorf("%s: results: %d: %s", c.name, got.Status, got.Body)
		}
	}
}
