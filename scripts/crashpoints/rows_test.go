package crashpoints

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// strike is a fault in a process at a point. does is kill or stop, as in PARLEY_FAILPOINTS.
type strike struct {
	role role
	at   failpoint.Point
	does string
}

// row is a run with one fault, or with several if a point is only reached after a loss.
type row struct {
	name    string
	strikes []strike
	tool    string // the tool of the affected call; empty: payOnce
	asked   bool   // a person must decide about the effect
	crowded bool   // the other calls exist earlier, and the organization's dispatch limit is one run
	late    bool   // the run may finish before its acceptance; it calls no tool
	short   bool   // included with -short
}

var rows = []row{
	{name: "before the insert", strikes: []strike{{ingress, failpoint.AcceptBefore, "kill"}}},
	{name: "after the commit, before the job message", strikes: []strike{{ingress, failpoint.AcceptAfter, "kill"}}, short: true},
	{name: "after the job message", strikes: []strike{{ingress, failpoint.PublishJobAfter, "kill:100ms"}}},
	{name: "before the claim", strikes: []strike{{agent, failpoint.ClaimBefore, "kill"}}},
	{name: "after the claim", strikes: []strike{{agent, failpoint.ClaimAfter, "kill"}}},
	{name: "before a model turn is journaled", strikes: []strike{{agent, failpoint.TurnBefore, "kill"}}},
	{name: "after a model turn", strikes: []strike{{agent, failpoint.TurnAfter, "kill"}}},
	{name: "between effect row and send", strikes: []strike{{agent, failpoint.EffectAfter, "kill"}}},
	{name: "tool worker dies before the effect is marked as sending", strikes: []strike{{tool, failpoint.SendBefore, "kill"}}},
	{name: "tool worker dies before the send", strikes: []strike{{tool, failpoint.SendAfter, "kill"}}, asked: true},
	{name: "tool worker dies before the send, receiver honours keys", strikes: []strike{{tool, failpoint.SendAfter, "kill"}}, tool: byKey},
	{name: "after the send, before its outcome is stored", strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}}, asked: true, short: true},
	{
		name: "after the send, before its outcome is stored, receiver honours keys", tool: byKey,
		strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}},
	},
	{name: "after the outcome is stored", strikes: []strike{{tool, failpoint.OutcomeAfter, "kill"}}},
	{name: "before a tool call is journaled", strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "after a tool call", strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}},
	{name: "before the final commit", strikes: []strike{{agent, failpoint.FinishBefore, "kill"}}},
	{name: "after the final commit, before the done event", strikes: []strike{{agent, failpoint.FinishAfter, "kill"}}, short: true},
	{name: "after the done event, before the acknowledgement", strikes: []strike{{agent, failpoint.DoneAfter, "kill:100ms"}}},
	{name: "ingress dies before it returns the answer", strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}},
	{
		name: "a run waits for a person, without a notification", asked: true,
		strikes: []strike{{tool, failpoint.SendAfter, "kill"}, {agent, failpoint.ParkAfter, "kill"}},
	},
	{
		name: "a run is requeued, its job message lost", tool: byKey,
		strikes: []strike{{tool, failpoint.SendAfter, "kill"}, {agent, failpoint.PutBackAfter, "kill"}},
	},
	{name: "sweeper dies after requeueing runs of dead workers", strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill"}, {sweep, failpoint.RequeueAfter, "kill"},
	}},
	{name: "sweeper dies after dispatching runs", strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill"}, {sweep, failpoint.DispatchAfter, "kill"},
	}},
	{name: "sweeper dies before publishing jobs again", strikes: []strike{
		{agent, failpoint.ClaimBefore, "kill"}, {sweep, failpoint.RedispatchAfter, "kill"},
	}},
	{name: "a freed slot is not used", strikes: []strike{{agent, failpoint.HandOverBefore, "kill"}}, crowded: true},
	{name: "a freed slot is used, without a job message", strikes: []strike{{agent, failpoint.HandOverAfter, "kill"}}, crowded: true},

	{name: "late: after the job message", strikes: []strike{{ingress, failpoint.PublishJobAfter, "kill:100ms"}}, late: true},
	{name: "late: before the insert", strikes: []strike{{agent, failpoint.LateBefore, "kill"}}, late: true, short: true},
	{name: "late: after the insert, before the reply", strikes: []strike{{agent, failpoint.LateAfter, "kill"}}, late: true, short: true},
	{name: "late: ingress dies before it returns the answer", strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}, late: true},
	{name: "late: zombie before the insert", strikes: []strike{{agent, failpoint.LateBefore, "stop"}}, late: true, short: true},

	{name: "zombie with a claim", strikes: []strike{{agent, failpoint.ClaimAfter, "stop"}}},
	{name: "zombie with a model response", strikes: []strike{{agent, failpoint.TurnBefore, "stop"}}},
	{name: "zombie with an effect row", strikes: []strike{{agent, failpoint.EffectAfter, "stop"}}},
	{name: "zombie with a tool result", strikes: []strike{{agent, failpoint.ToolBefore, "stop"}}},
	{name: "zombie with a run's result", strikes: []strike{{agent, failpoint.FinishBefore, "stop"}}},
	{name: "zombie before the send", strikes: []strike{{tool, failpoint.SendBefore, "stop"}}},
	{name: "zombie with an outcome", strikes: []strike{{tool, failpoint.OutcomeBefore, "stop"}}, asked: true},
	{name: "zombie with an outcome, receiver honours keys", strikes: []strike{{tool, failpoint.OutcomeBefore, "stop"}}, tool: byKey},
}

// TestRows injects faults into processes, starts replacements, and checks that every call has
// exactly one outcome.
func TestRows(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if !r.short {
				testkit.Long(t)
			}
			r.run(t)
		})
	}
}

func (r row) run(t *testing.T) {
	t.Helper()
	o := options{armed: map[role]string{}}
	for _, s := range r.strikes {
		o.armed[s.role] = string(s.at) + "=" + s.does
	}

	if r.late {
		r.runLate(t, o)
		return
	}
	if r.crowded {
		o.settings = []string{"WORKER_CONCURRENCY=1"}
	}

	b := newTestEnv(t, o)
	struck := call{name: "struck", tool: once, chat: true}
	if r.tool != "" {
		struck = call{name: "struck", tool: r.tool}
	}

	begin := func() []<-chan settled {
		return []<-chan settled{b.begin(call{name: "beside", tool: byKey}), b.begin(call{name: "plain"})}
	}

	calls := []<-chan settled{b.begin(struck)}
	if r.crowded {
		calls = append(calls, begin()...)
	}

	zombies := b.replaceStruck(r.strikes, func() {
		if !r.crowded {
			calls = append(calls, begin()...)
		}
	})

	all := b.settleAll(func() []settled { return b.resume(zombies) }, calls...)
	if got := all[0]; got.asked > 0 != r.asked {
		t.Errorf("a person decided %d times: %s", got.asked, got.body)
	}
}

// runLate is run for a run that may finish before its acceptance.
func (r row) runLate(t *testing.T, o options) {
	t.Helper()
	o.settings = []string{"LATE_ACCEPTANCE=true", "LOG_LEVEL=debug"}
	b := newTestEnv(t, o)
	b.useAgent(map[string]any{"name": "Echo", "systemPrompt": "Repeat.", "model": "offline/echo", "allowedCallers": []string{"system"}})

	// Until the ingress knows of the worker's slots, runs are accepted in the ordinary way.
	var calls []<-chan settled
	var last time.Time
	b.eventually("a run reaches "+string(r.strikes[0].at), func() bool {
		if time.Since(last) > time.Second {
			last, calls = time.Now(), append(calls, b.begin(call{name: fmt.Sprintf("struck-%d", len(calls))}))
		}
		return reached(b.parts[r.strikes[0].role], r.strikes[0].at)
	})
	zombies := b.replaceStruck(r.strikes, func() { calls = append(calls, b.begin(plain)) })
	b.settleAll(func() []settled {
		for _, z := range zombies {
			z.Cont()
			b.eventually("the zombie declines its run", func() bool { return strings.Contains(z.Output(), "late acceptance declined") })
		}
		return []settled{b.await(b.begin(call{name: "afterwards"}))}
	}, calls...)
}

// zombie is a frozen process; another process has taken over its role.
type zombie struct {
	*testkit.Process
	role role
}

// replaceStruck waits for each fault and starts a replacement for the process. It calls struck after the first fault.
func (b *testEnv) replaceStruck(strikes []strike, struck func()) (zombies []zombie) {
	b.Helper()
	for n, s := range strikes {
		b.awaitReached(s.role, s.at)
		if n == 0 {
			struck()
		}
		if strings.HasPrefix(s.does, "stop") {
			zombies = append(zombies, zombie{b.parts[s.role], s.role})
		} else {
			b.awaitDeath(s.role)
		}
		b.start(s.role, "")
	}
	return zombies
}

// resume resumes zombies and waits until each has noticed that it lost its leases. For tool workers this takes further calls,
// whose outcomes it returns.
func (b *testEnv) resume(zombies []zombie) (calls []settled) {
	b.Helper()
	for _, z := range zombies {
		if z.role == tool {
			b.parts[tool].Kill9() // from now on the zombie executes the calls
		}
		z.Cont()
		if z.role == agent {
			b.eventually("the zombie logs that its run was taken over", func() bool {
				return strings.Contains(z.Output(), "taken over")
			})
			continue
		}
		calls = append(calls, b.await(b.begin(call{name: "afterwards", tool: byKey})))
	}
	return calls
}
