package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/cluster"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// sound returns evidence without violations. It contains a key that was requested twice, a session
// with two turns, a bill for each tool, and resource samples of a process.
func sound() *evidence {
	e := &evidence{Seen: map[string]string{}, Deadline: time.Minute, LoadUntil: at(150)}
	for n, made := range []struct{ key, message, session string }{
		{"one/automation/key-1", "sleep 1ms: plain", "auto-1"},
		{"one/automation/turn-1", "turn session-1 1", "session-1"},
		{"one/automation/turn-2", "turn session-1 2", "session-1"},
		{"one/automation/none", "pay none bill-1", "auto-2"},
		{"one/automation/idempotent", "pay idempotent bill-2", "auto-3"},
		{"one/automation/unsafe", "pay unsafe bill-3", "auto-4"},
	} {
		r := row{
			ID: fmt.Sprintf("run_%d", n), Key: made.key, Session: made.session, Status: "completed", Message: made.message, Seq: n, Attempts: 1,
			Created: at(n), Started: at(2 * n), Finished: at(2*n + 1), Print: "version 1",
		}
		r.Result = `{"id":"` + r.ID + `"}`
		if b, known := billFor(made.message); known {
			r.Result = `{"id":"` + r.ID + `","message":"done: {` + paidMark + `}"}`
			e.Effects = append(e.Effects, effect{Bill: b.name, Tool: b.tool, Key: "effect-" + b.name, At: at(2 * n)})
		}
		e.Rows = append(e.Rows, r)
		e.Seen[r.ID] = r.Print
		asked := request{
			Kind: "plain", Key: r.Key, Via: "ingress 1", Sent: r.Created, Done: r.Finished, Within: time.Minute, Status: 200, Run: r.ID,
			RunStatus: r.Status, Body: r.Result,
		}
		e.Requests = append(e.Requests, asked, asked)
	}

	e.Requests = append(e.Requests, request{Key: "one/automation/key-1", Status: 503, RetryAfter: true, Sent: at(0), Done: at(1), Within: time.Minute})
	e.Turns = []turn{{Session: "session-1", N: 1}, {Session: "session-1", N: 2, Before: []int{1}}}
	for n := range 180 {
		e.Samples = append(e.Samples, sample{Part: "agent 1", PID: 7, At: at(n), Memory: 100 << 20, Descriptors: 40})
	}
	return e
}

func TestCheckerPassesSoundEvidence(t *testing.T) {
	t.Parallel()
	v := check(sound())
	if len(v.Violations) != 0 {
		t.Errorf("violations: %v", v.Violations)
	}

	for _, what := range []string{
		"accepted runs", "runs in the database", "ends in time", "keys with one run", "answers compared", "keys answered more than once",
		"terminal rows watched", "bills paid, none", "bills paid, idempotent", "bills paid, unsafe", "bills whose run says that they were paid",
		"turns that follow another", "model calls of turns", "requests answered", "refusals with Retry-After", judged, "accepted runs that completed",
	} {
		if v.Checked[what] == 0 {
			t.Errorf("checks of %q = 0, want more: %v", what, v.Checked)
		}
	}
}

// TestCheckerFindsEachViolation changes sound evidence so that it contains one violation at a time.
func TestCheckerFindsEachViolation(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rule  string // the violated rule
		also  []string
		plant func(e *evidence)
	}{
		"an accepted run is not in the database": {"every accepted run ends", []string{"equal answers per key", "terminal rows never change", "one run per key", "session order"}, func(e *evidence) {
			e.Rows = slices.Delete(e.Rows, 0, 1)
		}},
		"an unfinished run after a 202": {"every accepted run ends", nil, func(e *evidence) {
			e.Rows = append(e.Rows, run("run_x", ""))
			e.Requests = append(e.Requests, request{Status: 202, Run: "run_x"})
		}},
		"an unfinished, unreported run": {"every accepted run ends", nil, func(e *evidence) { e.Rows = append(e.Rows, run("run_x", "")) }},
		"an open run":                   {"every accepted run ends", nil, func(e *evidence) { e.Open = append(e.Open, open{ID: "run_x", Status: "queued"}) }},
		"a run finished two minutes after its deadline": {"no run finishes late", nil, func(e *evidence) {
			e.Rows[0].Finished = e.Rows[0].Created.Add(3*time.Minute + time.Second)
		}},
		"failed runs": {"few runs fail", nil, func(e *evidence) {
			for n := range 3 {
				e.Rows[3+n].Status = "failed"
			}
		}},
		"one failed run in twenty, and one more": {"few runs fail", nil, func(e *evidence) {
			for n := range 94 {
				e.Rows = append(e.Rows, run(fmt.Sprintf("run_x%d", n), map[bool]string{true: "timed_out", false: "completed"}[n < 6]))
				e.Requests = append(e.Requests, request{Status: 202, Run: fmt.Sprintf("run_x%d", n)})
			}
		}},
		"two runs for a key": {"one run per key", nil, func(e *evidence) {
			second := run("run_x", "completed")
			second.Key = e.Rows[5].Key
			e.Rows = append(e.Rows, second)
			e.Requests = e.Requests[:4]
		}},
		"a response with another run":  {"one run per key", []string{"equal answers per key"}, func(e *evidence) { e.Requests[0].Run = "run_1" }},
		"a 202 with another run":       {"one run per key", nil, func(e *evidence) { e.Requests[0].Run, e.Requests[0].Body = "run_1", "" }},
		"a changed byte in a response": {"equal answers per key", nil, func(e *evidence) { e.Requests[1].Body += " " }},
		"a changed terminal row":       {"terminal rows never change", nil, func(e *evidence) { e.Rows[3].Print = "version 2" }},
		"a deleted terminal row": {"terminal rows never change", nil, func(e *evidence) {
			e.Seen["run_gone"] = "version 1"
		}},
		"two keys for an idempotent bill": {"effects at most once", nil, func(e *evidence) {
			e.Effects = append(e.Effects, effect{Bill: "bill-2", Tool: "idempotent", Key: "another"})
		}},
		"no key for an idempotent bill": {"effects at most once", nil, func(e *evidence) { e.Effects[1].Key = "" }},
		"an unsafe bill sent twice": {"effects at most once", nil, func(e *evidence) {
			e.Effects = append(e.Effects, e.Effects[2])
		}},
		"an unsafe bill repeated without a decision": {"effects at most once", nil, func(e *evidence) {
			e.Effects = append(e.Effects, e.Effects[2], e.Effects[2])
			e.Decisions = []decision{{Run: "run_5", Bill: "bill-3", Said: "resend"}, {Run: "run_5", Bill: "bill-3", Said: "happened"}}
		}},
		"a bill reported as paid but not paid": {"no effect is lost", nil, func(e *evidence) { e.Effects = e.Effects[1:] }},
		"an unpaid bill of a completed run": {"no effect is lost", nil, func(e *evidence) {
			replaceText(e, 3, "done: The tool none rejected the call.")
			e.Effects = e.Effects[1:]
		}},
		"a confirmation that no person gave": {"no effect is lost", nil, func(e *evidence) { replaceText(e, 5, confirmedMark) }},
		"a bill confirmed but not paid": {"no effect is lost", nil, func(e *evidence) {
			replaceText(e, 5, confirmedMark)
			e.Effects = e.Effects[:2]
			e.Decisions = []decision{{Run: "run_5", Bill: "bill-3", Said: "happened"}}
		}},
		"a client's call before the agent's call": {"clients' calls after own ones", nil, func(e *evidence) {
			mixed(e, rateTool+" completed", "idempotent completed")
		}},
		"a client's call made twice": {"clients' calls after own ones", nil, func(e *evidence) {
			mixed(e, "idempotent completed", rateTool+" completed", rateTool+" completed")
		}},
		"a failed call of a client": {"clients' calls after own ones", nil, func(e *evidence) {
			mixed(e, "idempotent completed", rateTool+" failed")
		}},
		"a result that no client sent": {"clients' calls after own ones", nil, func(e *evidence) {
			mixed(e, "idempotent completed", rateTool+" completed")
			e.Results = nil
		}},
		"a client's result that the model does not have": {"clients' calls after own ones", nil, func(e *evidence) {
			r := mixed(e, "idempotent completed", rateTool+" completed")
			r.Result = strings.ReplaceAll(r.Result, rateMark, "")
		}},
		"refused results of a completed run": {"honest refusals of results", nil, func(e *evidence) {
			mixed(e, "idempotent completed", rateTool+" completed")
			e.Results = append(e.Results, clientResults{Run: "run_m", Status: 409})
		}},
		"a response 500 to results": {"honest refusals of results", nil, func(e *evidence) {
			e.Results = append(e.Results, clientResults{Run: "run_x", Status: 500})
		}},
		"a turn that begins before the previous turn ends": {"session order", nil, func(e *evidence) {
			e.Rows[2].Started = e.Rows[1].Finished.Add(-time.Millisecond)
		}},
		"turns in the wrong order": {"session order", nil, func(e *evidence) {
			e.Rows[1].Message, e.Rows[2].Message = e.Rows[2].Message, e.Rows[1].Message
		}},
		"a turn without the previous turn": {"sessions remember their turns", nil, func(e *evidence) { e.Turns[1].Before = nil }},
		"a turn with a later turn":         {"sessions remember their turns", nil, func(e *evidence) { e.Turns[0].Before = []int{2} }},
		"a stuck request": {"no stuck waiter", nil, func(e *evidence) {
			e.Requests[0].Done = e.Requests[0].Sent.Add(61 * time.Second)
		}},
		"a stuck request, ingress frozen for less time": {"no stuck waiter", nil, func(e *evidence) {
			e.Requests[0].Done = e.Requests[0].Sent.Add(80 * time.Second)
			e.Interrupted = []interruption{{Part: "ingress 1", From: at(5), To: at(15)}, {Part: "ingress 2", From: at(5), To: at(60)}}
		}},
		"a stuck request without a response": {"no stuck waiter", nil, func(e *evidence) {
			e.Requests = append(e.Requests, request{Status: 0, Sent: at(0), Done: at(300), Within: time.Minute, Problem: "timeout"})
		}},
		"a response 500":            {"honest refusals", nil, func(e *evidence) { e.Requests = append(e.Requests, request{Status: 500}) }},
		"a 429 without Retry-After": {"honest refusals", nil, func(e *evidence) { e.Requests[12].RetryAfter = false }},
		"a response 422":            {"honest refusals", nil, func(e *evidence) { e.Requests = append(e.Requests, request{Status: 422}) }},
		"growing memory":            {"memory and descriptors flat", nil, func(e *evidence) { grow(e, func(s *sample, n int) { s.Memory += int64(n) << 20 }) }},
		"growing descriptors":       {"memory and descriptors flat", nil, func(e *evidence) { grow(e, func(s *sample, n int) { s.Descriptors += n / 3 }) }},
		"an end without a kill":     {"parts end only when struck", nil, func(e *evidence) { e.Ends = []string{"agent 1 ended"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			row.plant(e)
			found := slices.Sorted(maps.Keys(check(e).Violations))
			if !slices.Contains(found, row.rule) {
				t.Errorf("violated rules = %q, want %q", found, row.rule)
			}
			for _, other := range found {
				if other != row.rule && !slices.Contains(row.also, other) {
					t.Errorf("rule %q is violated, too", other)
				}
			}
		})
	}
}

// TestCheckerExcuses checks that the checker accepts evidence that resembles a violation but is
// allowed.
func TestCheckerExcuses(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(e *evidence){
		"repeated calls without effect": func(e *evidence) { e.Effects = append(e.Effects, e.Effects[0], e.Effects[0]) },
		"an idempotent bill repeated with its key": func(e *evidence) {
			e.Effects = append(e.Effects, e.Effects[1], e.Effects[1])
		},
		"an unsafe bill repeated after a person's decision": func(e *evidence) {
			e.Effects = append(e.Effects, e.Effects[2])
			e.Decisions = []decision{{Run: "run_5", Bill: "bill-3", Said: "resend"}}
		},
		"a run that waited for a person": func(e *evidence) {
			e.Rows[5].Finished = at(200)
			e.Decisions = []decision{{Run: "run_5", Bill: "bill-3", Said: "happened", At: at(190)}}
		},
		"a run that waited for its client": func(e *evidence) {
			mixed(e, "idempotent completed", rateTool+" completed").Finished = at(200)
			e.Results[0].Done = at(190)
		},
		"a client's call before the repetition of the agent's call": func(e *evidence) {
			mixed(e, "idempotent failed", rateTool+" completed", "idempotent completed")
		},
		"refused results of a failed run": func(e *evidence) {
			mixed(e, "idempotent completed").Status = "failed"
			e.Results[0].Status = 409
		},
		"a request through a frozen ingress": func(e *evidence) {
			e.Requests[0].Done = e.Requests[0].Sent.Add(65 * time.Second)
			e.Interrupted = []interruption{{Part: "ingress 1", From: at(5), To: at(15)}}
		},
		"a bill of a failed run": func(e *evidence) {
			e.Rows[5].Status = "failed"
			e.Effects = e.Effects[:2]
		},
		"a bill that a person confirmed": func(e *evidence) {
			replaceText(e, 5, confirmedMark)
			e.Decisions = []decision{{Run: "run_5", Bill: "bill-3", Said: "happened"}}
		},
		"memory and descriptors after a start, at a peak, and after the load": func(e *evidence) {
			grow(e, func(s *sample, n int) {
				switch {
				case n < 15:
					s.Memory, s.Descriptors = 1<<20, 5
				case n > 130:
					s.Memory, s.Descriptors = s.Memory<<1, s.Descriptors<<1
				}
			})
		},
		"a process that was disconnected at first": func(e *evidence) {
			grow(e, func(s *sample, n int) {
				if n < 45 {
					s.Descriptors = 5
				}
			})
			e.Interrupted = []interruption{{Part: "agent 1", From: at(-1), To: at(45)}}
		},
		"a process that was disconnected again before it was warm": func(e *evidence) {
			grow(e, func(s *sample, n int) {
				if n < 94 {
					s.Memory = 1 << 20
				}
			})
			e.Interrupted = []interruption{{Part: "agent 1", From: at(-1), To: at(40)}, {Part: "agent 1", From: at(44), To: at(80)}}
		},
		"a turn after a failed turn": func(e *evidence) {
			e.Rows[1].Status = "failed"
			e.Turns[1].Before = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			plant(e)
			if found := check(e).Violations; len(found) != 0 {
				t.Errorf("violations: %v", found)
			}
		})
	}
}

// replaceText replaces the text of a run wherever the evidence contains it.
func replaceText(e *evidence, n int, text string) {
	e.Rows[n].Result = `{"id":"` + e.Rows[n].ID + `","message":"` + text + `"}`
	for i, asked := range e.Requests {
		if asked.Run == e.Rows[n].ID {
			e.Requests[i].Body = e.Rows[n].Result
		}
	}
}

// mixed adds a completed run with the given tool calls, some of which the client executed, and adds
// the client's results. It returns the run, which the caller may change.
func mixed(e *evidence, calls ...string) *row {
	r := run("run_m", "completed")
	r.Message = "pay idempotent bill-9 " + withRate
	var list []string
	for _, call := range calls {
		name, status, _ := strings.Cut(call, " ")
		list = append(list, fmt.Sprintf(`{"name":%q,"status":%q}`, name, status))
	}
	r.Result = `{"id":"run_m","toolCalls":[` + strings.Join(list, ",") + `],"message":"done: {` + paidMark + `}{` + rateMark + `}"}`
	e.Rows = append(e.Rows, r)
	e.Effects = append(e.Effects, effect{Bill: "bill-9", Tool: "idempotent", Key: "effect-9"})
	e.Results = append(e.Results, clientResults{Run: r.ID, Status: 200})
	return &e.Rows[len(e.Rows)-1]
}

func run(id, status string) row { return row{ID: id, Status: status, Created: at(0), Finished: at(1)} }

func grow(e *evidence, by func(*sample, int)) {
	for n := range e.Samples {
		by(&e.Samples[n], n)
	}
}

func TestScheduleIsDrawnFromItsSeed(t *testing.T) {
	t.Parallel()
	p := long(10 * time.Minute).plan
	p.natsDisk, p.postgresDisk = true, true
	p.parts = []string{"sweep 1", "tool 1", "tool 2", "agent 1", "agent 2", "agent 3", "ingress 1", "ingress 2"}
	first := schedule(7, p)
	if !slices.Equal(first, schedule(7, p)) {
		t.Error("the same seed gives a different schedule")
	}
	if slices.Equal(first, schedule(8, p)) {
		t.Error("another seed draws the same schedule")
	}

	drawn := map[string]int{}
	for _, f := range first {
		if f.At < 0 || f.At > p.total {
			t.Errorf("fault after the end of the plan: %s", f)
		}
		if f.Kind == kill && p.spared(f.Part, f.At) {
			t.Errorf("kill of a spared part: %s", f)
		}
		if lasts := slices.Contains([]string{freeze, cut, requests, replies, delay, fill, skew, lock, snapshot}, f.Kind); lasts != (f.For > 0) {
			t.Errorf("wrong duration: %s", f)
		}
		if f.Kind == delay && f.By == 0 {
			t.Errorf("delay is 0: %s", f)
		}
		if f.Kind == skew && f.By.Abs() > leeway/2 && !strings.HasPrefix(f.Part, cluster.Sweep) {
			t.Errorf("clock offset beyond the leeway: %s", f)
		}
		drawn[f.Kind]++
	}

	for _, kind := range []string{kill, restart, freeze, cut, requests, replies, delay, reset, deletion, truncate, fill, skew, snapshot} {
		if drawn[kind] == 0 {
			t.Errorf("no %s in ten minutes: %v", kind, drawn)
		}
	}

	if drawn[kill] < 330 { // the test requires 300 kills with an effect, and some drawn kills strike a part that is already down
		t.Errorf("kills in ten minutes = %d, want at least 330", drawn[kill])
	}
}
