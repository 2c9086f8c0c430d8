package crashpoints

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// strike is a fault of a process at a point. The value of the field named does is "kill" or "stop",
// as in PARLEY_FAILPOINTS.
type strike struct {
	role role
	at   failpoint.Point
	does string
}

// row describes a run and the fault to inject into it. If a run reaches the point only after an
// earlier fault, the row contains both faults.
type row struct {
	name    string
	strikes []strike
	tool    string // tool that the affected call uses; empty: payOnce
	asked   bool   // whether a person must decide about the effect
	crowded bool   // whether two more calls begin before the fault, and workers have one slot; otherwise, they begin after the fault
	slow    bool   // whether the till takes a while to confirm the payment
	short   bool   // whether -short includes the row
}

var rows = []row{
	{name: "before the insert", strikes: []strike{{ingress, failpoint.AcceptBefore, "kill"}}},
	{name: "after the commit, before the job message", strikes: []strike{{ingress, failpoint.AcceptAfter, "kill"}}, short: true},
	{name: "after the job message", strikes: []strike{{ingress, failpoint.PublishJobAfter, "kill:100ms"}}, short: true},
	{name: "before the claim", strikes: []strike{{agent, failpoint.ClaimBefore, "kill"}}},
	{name: "after the claim", strikes: []strike{{agent, failpoint.ClaimAfter, "kill"}}},
	{name: "before a model turn is journaled", strikes: []strike{{agent, failpoint.TurnBefore, "kill"}}, short: true},
	{name: "after a model turn", strikes: []strike{{agent, failpoint.TurnAfter, "kill"}}},
	{name: "between effect row and send", strikes: []strike{{agent, failpoint.EffectAfter, "kill"}}, short: true},
	{name: "while the receiver has the request", strikes: []strike{{agent, failpoint.EffectAfter, "kill:150ms"}}, slow: true},
	{name: "tool worker dies before the effect is marked as sending", strikes: []strike{{tool, failpoint.SendBefore, "kill"}}},
	{name: "tool worker dies before the send", strikes: []strike{{tool, failpoint.SendAfter, "kill"}}, asked: true},
	{
		name: "tool worker dies while the receiver has the request", slow: true, asked: true, short: true,
		strikes: []strike{{tool, failpoint.SendAfter, "kill:150ms"}},
	},
	{
		name: "tool worker dies before the send, receiver honours keys", tool: byKey, short: true,
		strikes: []strike{{tool, failpoint.SendAfter, "kill"}},
	},
	{name: "after the send, before its outcome is stored", strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}}, asked: true, short: true},
	{
		name: "after the send, before its outcome is stored, receiver honours keys", tool: byKey,
		strikes: []strike{{tool, failpoint.OutcomeBefore, "kill"}},
	},
	{name: "after the outcome is stored", strikes: []strike{{tool, failpoint.OutcomeAfter, "kill"}}},
	{name: "before a tool call is journaled", strikes: []strike{{agent, failpoint.ToolBefore, "kill"}}},
	{name: "after a tool call", strikes: []strike{{agent, failpoint.ToolAfter, "kill"}}},
	{name: "before the final commit", strikes: []strike{{agent, failpoint.FinishBefore, "kill"}}},
	{name: "after the final commit, before the result is published", strikes: []strike{{agent, failpoint.FinishAfter, "kill"}}, short: true},
	{name: "after the result is published", strikes: []strike{{agent, failpoint.DoneAfter, "kill:100ms"}}},
	{name: "ingress dies before it returns the answer", strikes: []strike{{ingress, failpoint.AnswerBefore, "kill"}}, short: true},
	{
		name: "a run waits for a person, without a notification", asked: true,
		strikes: []strike{{tool, failpoint.SendAfter, "kill"}, {agent, failpoint.ParkAfter, "kill"}},
	},
	{
		name: "a run is requeued, its job message lost", tool: byKey,
		strikes: []strike{{tool, failpoint.SendAfter, "kill"}, {agent, failpoint.RequeuedAfter, "kill"}},
	},
	{name: "sweeper dies after requeueing runs of dead workers", strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill"}, {sweep, failpoint.ExpireAfter, "kill"},
	}},
	{name: "sweeper dies after dispatching runs", strikes: []strike{
		{agent, failpoint.ClaimAfter, "kill"}, {sweep, failpoint.DispatchAfter, "kill"},
	}},
	{name: "sweeper dies before publishing jobs again", strikes: []strike{
		{agent, failpoint.ClaimBefore, "kill"}, {sweep, failpoint.RedispatchAfter, "kill"},
	}},
	{name: "a freed slot is not used", strikes: []strike{{agent, failpoint.DispatchNextBefore, "kill"}}, crowded: true},
	{name: "a freed slot is used, without a job message", strikes: []strike{{agent, failpoint.DispatchNextAfter, "kill"}}, crowded: true},

	{name: "zombie with a claim", strikes: []strike{{agent, failpoint.ClaimAfter, "stop"}}},
	{name: "zombie with a model response", strikes: []strike{{agent, failpoint.TurnBefore, "stop"}}},
	{name: "zombie with an effect row", strikes: []strike{{agent, failpoint.EffectAfter, "stop"}}},
	{name: "zombie with a tool result", strikes: []strike{{agent, failpoint.ToolBefore, "stop"}}},
	{name: "zombie with a run's result", strikes: []strike{{agent, failpoint.FinishBefore, "stop"}}, short: true},
	{name: "zombie before the send", strikes: []strike{{tool, failpoint.SendBefore, "stop"}}},
	{name: "zombie with an outcome", strikes: []strike{{tool, failpoint.OutcomeBefore, "stop"}}, asked: true},
	{name: "zombie with an outcome, receiver honours keys", strikes: []strike{{tool, failpoint.OutcomeBefore, "stop"}}, tool: byKey},
}

// TestRows injects faults into processes, replaces the processes, and checks that every call has
// exactly one outcome. Each row has its own environment. With -short, TestShortForm tests some of
// the rows.
func TestRows(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			o := options{}
			if r.crowded {
				o.settings = []string{"WORKER_CONCURRENCY=1"}
			}
			newTestEnv(t, o).strike(r, "", func() {})
		})
	}
}

// shortLanes is the number of environments for TestShortForm. The tests mostly wait for intervals of
// the sweeper and for timeouts.
const shortLanes = 3

// envCase is a row or a pair that is tested in an environment with other cases.
type envCase struct {
	name  string
	lease bool // whether a lease must expire
	test  func(b *testEnv)
}

// shortCases returns the cases of TestShortForm. The cases in which no lease must expire come first,
// because no lease expires in the first half minute of a database server.
func shortCases() (cases []envCase) {
	for n, r := range rows {
		if r.short {
			cases = append(cases, envCase{r.name, r.strikes[0].role == agent, func(b *testEnv) { b.strike(r, "-"+strconv.Itoa(n), b.loseLeases) }})
		}
	}

	for _, p := range shortPairs {
		cases = append(cases, envCase{p.name(), p.first.role == agent || p.second.role == agent, func(b *testEnv) { b.twice(p) }})
	}

	slices.SortStableFunc(cases, func(a, b envCase) int {
		switch {
		case a.lease == b.lease:
			return 0
		case b.lease:
			return -1
		}
		return 1
	})
	return cases
}

// TestShortForm tests some rows and pairs. Each environment tests one case after another. To save
// half a minute for each case, the test expires the leases of agent workers in the database.
func TestShortForm(t *testing.T) {
	t.Parallel()
	if !testing.Short() {
		t.Skip("TestRows and TestPairs test all rows and pairs")
	}

	cases := shortCases()
	inLanes(t, shortLanes, cases)
	tested, all := len(cases)-len(shortPairs), len(pairs())
	t.Logf("NOT TESTED without LONG=1: %d of %d rows, %d of %d pairs", len(rows)-tested, len(rows), all-len(shortPairs), all)
}

// inLanes runs the cases in the given number of environments at the same time. Each environment tests
// one case after another, until a case fails.
func inLanes(t *testing.T, lanes int, cases []envCase) {
	t.Helper()
	next := make(chan envCase, len(cases))
	for _, c := range cases {
		next <- c
	}

	close(next)
	for lane := range lanes {
		t.Run("lane "+strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, options{})
			for c := range next {
				passed := t.Run(c.name, func(t *testing.T) {
					b := b.within(t)
					if c.lease {
						b.awaitUptime()
					}
					c.test(b)
				})
				if !passed {
					return // other cases cannot use the environment in this state
				}
			}
		})
	}
}

// strike begins calls, of which the first one is struck by the faults of the row. It replaces the
// processes and checks the calls. The suffix distinguishes the names of the calls from those of
// other rows. The function lost is called when an agent worker has died or is frozen.
func (b *testEnv) strike(r row, suffix string, lost func()) {
	b.Helper()
	b.dropJobMessages()
	for _, s := range r.strikes {
		b.replace(s.role, string(s.at)+"="+s.does)
	}

	struck := call{name: "struck" + suffix, tool: once, chat: true}
	if r.tool != "" {
		struck = call{name: "struck" + suffix, tool: r.tool}
	}
	if r.slow {
		struck.name = slowly + struck.name
	}

	begin := func() []<-chan settled {
		return []<-chan settled{b.begin(call{name: "beside" + suffix, tool: byKey}), b.begin(call{name: "plain" + suffix})}
	}

	calls := []<-chan settled{b.begin(struck)}
	if r.crowded {
		calls = append(calls, begin()...)
	}

	zombies := b.replaceStruck(r.strikes, func() {
		if !r.crowded {
			calls = append(calls, begin()...)
		}
		if r.strikes[0].role == agent {
			lost()
		}
	})

	all := b.settleAll(func() []settled { return b.resume(zombies, suffix) }, calls...)
	if got := all[0]; got.asked > 0 != r.asked {
		b.Errorf("a person decided %d times: %s", got.asked, got.body)
	}
	for _, z := range zombies {
		if z.role == agent {
			z.Kill9() // the next row needs an agent worker that reaches its point
		}
	}
}

// zombie is a frozen process that another process has replaced.
type zombie struct {
	*testkit.Process
	role role
}

// replaceStruck waits for each fault and replaces the process. When the first fault occurs, it
// calls the argument struck. It returns the frozen processes.
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

// resume resumes frozen processes. It waits until each of them has noticed that it lost its leases.
// Tool workers notice the loss only when they execute another call, so resume starts calls and
// returns their outcomes.
func (b *testEnv) resume(zombies []zombie, suffix string) (calls []settled) {
	b.Helper()
	for _, z := range zombies {
		if z.role == tool {
			b.parts[tool].Kill9() // only the resumed process executes calls from now on
		}
		z.Cont()
		if z.role == agent {
			b.eventually("the zombie logs that its run was taken over", func() bool {
				return strings.Contains(z.Output(), "taken over")
			})
			continue
		}
		calls = append(calls, b.await(b.begin(call{name: "afterwards" + suffix, tool: byKey})))
	}
	return calls
}
