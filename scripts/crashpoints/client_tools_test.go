package crashpoints

import (
	"context"
	"maps"
	"net/http"
	"testing"

	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// ratesRows are faults on the path of a run that calls a tool of its client, alone or beside a tool of
// the agent.
var ratesRows = []row{
	{name: "after the model turn", tool: byKey, strikes: []strike{{agent, failpoint.TurnAfter, "kill"}}},
	{name: "before the agent's call is journaled", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "after the agent's call", tool: byKey, strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}, short: true},
	{name: "after the client's call is in the ledger", strikes: []strike{{agent, failpoint.EffectAfter, "kill"}}, short: true},
	{name: "a run waits for its client, without a notification", tool: byKey, strikes: []strike{{agent, failpoint.ParkAfter, "kill"}}},
	{name: "before the client's result is journaled", strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "after the client's result", strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}},
	{name: "before the final commit", tool: byKey, strikes: []strike{{agent, failpoint.FinishBefore, "kill"}}},
	{name: "ingress dies before it returns the answer", tool: byKey, strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}},
	{name: "zombie with the client's call in the ledger", strikes: []strike{{agent, failpoint.EffectAfter, "stop"}}},
	{name: "zombie with the agent's result", tool: byKey, strikes: []strike{{agent, failpoint.ToolBefore, "stop"}}},
}

// A tool of the client and one of the agent are called in the same turn, under faults. The agent's call
// is made first and has one effect; the usage is that of a run without a fault.
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
			calls := []<-chan settled{b.begin(call{name: "struck", tool: r.tool, chat: true, rates: true})}
			zombies := b.replaceStruck(r.strikes, func() {
				calls = append(calls, b.begin(call{name: "beside", tool: r.tool, chat: true, rates: true}))
			})
			all := b.settleAll(func() []settled { return b.resume(zombies) }, calls...)

			want := []string{r.tool, rate}
			if r.tool == "" {
				want = want[1:]
			}
			for _, s := range all[:2] {
				for i, name := range want {
					if len(s.ToolCalls) != len(want) || s.ToolCalls[i].Name != name || s.ToolCalls[i].Status != "completed" {
						t.Fatalf("%s: calls %+v", s.name, s.ToolCalls)
					}
				}
				if s.asked > 0 {
					t.Errorf("%s: a person decided %d times", s.name, s.asked)
				}
			}
			if !maps.Equal(all[0].Usage, all[1].Usage) {
				t.Errorf("the usage is %v, and without a fault %v", all[0].Usage, all[1].Usage)
			}
		})
	}
}

// sendRates sends the client's results twice, as after a lost response. The agent's own call must have
// been made before.
func (b *testEnv) sendRates(ctx context.Context, r run, c call) {
	if times, _ := b.till.of(c.name); c.tool != "" && times == 0 {
		b.Errorf("%s: the run waits for its client before the agent's own call", c.name)
	}
	var results []any
	for _, call := range r.RequiredAction.Calls {
		results = append(results, map[string]any{"toolCallId": call.ToolCallID, "output": map[string]any{"rate": 3}})
	}
	for range 2 {
		got := b.sendWithin(ctx, http.MethodPost, "/api/runs?id="+r.ID+"&action=tool-results", nil, map[string]any{"results": results})
		if got.err == nil && got.status != http.StatusOK && got.status != http.StatusServiceUnavailable {
			b.Errorf("%s: results: %d: %s", c.name, got.status, got.body)
		}
	}
}
