package rundb

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
)

// noon is the time at which the runs in these tests are accepted. Later times are given in seconds
// after noon.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func nullTime(seconds float64) sql.NullTime { return sql.NullTime{Time: after(seconds), Valid: true} }

// tracedAs returns the trace of a run. The arguments started and until are seconds after noon: the
// start of the run, and its end or, if the run is open, the current time. If started is negative,
// the run has not started.
func tracedAs(status domain.RunStatus, started, until float64) *trace {
	run := tracedRun{RunRow: RunRow{ID: "run_1", Status: string(status), CreatedAt: noon}, Now: after(until)}
	if started >= 0 {
		run.StartedAt = nullTime(started)
	}
	if status.Terminal() {
		run.FinishedAt, run.Ended = nullTime(until), true
		run.Result = sql.NullString{Valid: true, String: `{"usage":{"inputTokens":30,"outputTokens":6,"costMicros":9,"model":"m"}}`}
	}
	return &trace{run: run, effects: map[string]tracedEffect{}}
}

func (s *trace) failed(code string) *trace {
	s.run.Result.String = fmt.Sprintf(`{"error":{"code":%q,"message":"why"}}`, code)
	return s
}

func (s *trace) turn(fence int64, at float64, calls ...string) *trace {
	turn := &tracedTurn{Model: "m", Usage: domain.Usage{InputTokens: 10, OutputTokens: 2}, CostMicros: 3}
	for _, id := range calls {
		turn.ToolCalls = append(turn.ToolCalls, tracedCall{ID: id, Name: "tool " + id})
	}
	s.steps = append(s.steps, tracedStep{fence: fence, at: after(at), Turn: turn})
	return s
}

func (s *trace) tool(fence int64, at, took float64, id, status string) *trace {
	step := tracedStep{fence: fence, at: after(at), Tool: &struct {
		Call domain.ToolCall `json:"call"`
	}{domain.ToolCall{ID: id, Name: "tool " + id, Status: status, DurationMS: int64(took * 1000), Output: json.RawMessage(`{"error":"no"}`)}}}
	s.steps = append(s.steps, step)
	return s
}

func (s *trace) sent(id string, at float64) *trace {
	s.effects[id] = tracedEffect{CallID: id, Name: "tool " + id, SentAt: nullTime(at)}
	return s
}

// note adds a record of an attempt, or of a wait for a person. If the argument to is less than the
// argument from, the record has no end.
func (s *trace) note(kind domain.SpanKind, fence int64, attempt int, from, to float64, status domain.SpanStatus, code, message string) *trace {
	n := tracedNote{Fence: fence, Kind: kind, Attempt: attempt, BeganAt: after(from), Status: status, Code: code, Message: message}
	if to >= from {
		n.EndedAt = nullTime(to)
	}
	if kind == domain.SpanWait {
		n.CallID = "c"
	}
	s.notes = append(s.notes, n)
	return s
}

func (s *trace) parkedAt(seconds float64) *trace {
	s.run.ParkedAt = nullTime(seconds)
	s.run.RequiredAction = []byte(`{"kind":"approval","toolCallId":"c","name":"tool c"}`)
	return s
}

// drawn formats each span as a line of text: kind, attempt, name, status, from-to, tokens, message.
func drawn(spans []domain.Span) string {
	var out strings.Builder
	for _, s := range spans {
		to := "…"
		if s.FinishedAt != nil {
			to = fmt.Sprint(s.FinishedAt.Sub(noon).Seconds())
		}
		fmt.Fprintf(&out, "%s %d %q %s %v-%s", s.Kind, s.Attempt, s.Name, s.Status, s.StartedAt.Sub(noon).Seconds(), to)
		if s.InputTokens != nil {
			fmt.Fprintf(&out, " %d/%d/%d by %s", *s.InputTokens, *s.OutputTokens, *s.CostMicros, s.Model)
		}
		if s.Message != "" {
			fmt.Fprintf(&out, " (%s)", s.Message)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

const att, wait = domain.SpanAttempt, domain.SpanWait

func TestSpans(t *testing.T) {
	t.Parallel()
	lost := func(s *trace) *trace {
		return s.note(att, 1, 1, 1, 5, domain.SpanLost, "", EndedLost).note(att, 3, 2, 6, -1, "", "", "")
	}
	for name, c := range map[string]struct {
		of   *trace
		want string
	}{
		"queued": {tracedAs(domain.RunQueued, -1, 4), `
			queue 1 "queue" waiting 0-…`},
		"cancelled before it began": {tracedAs(domain.RunCancelled, -1, 4), `
			queue 1 "queue" failed 0-4 (the run was cancelled)`},
		"an answer at once": {tracedAs(domain.RunCompleted, 1, 4), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-4
			turn 1 "turn 1" completed 1-4 30/6/9 by m`},
		"tools beside each other": {tracedAs(domain.RunCompleted, 1, 9).turn(1, 2, "a", "b").tool(1, 5, 3, "a", "completed").tool(1, 5.1, 2, "b", "failed"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-9
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			tool 1 "tool a" completed 2-5
			tool 1 "tool b" failed 3.1-5.1 (no)
			turn 1 "turn 2" completed 5.1-9 20/4/6 by m`},
		"in a turn": {tracedAs(domain.RunRunning, 1, 4), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" running 1-…
			turn 1 "turn 1" running 1-…`},
		"in a call": {tracedAs(domain.RunRunning, 1, 4).turn(1, 2, "a", "b").tool(1, 3, 1, "a", "completed"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" running 1-…
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			tool 1 "tool a" completed 2-3
			tool 1 "tool b" running 3-…`},
		"in a call that was sent": {tracedAs(domain.RunRunning, 1, 4).turn(1, 2, "a").sent("a", 3), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" running 1-…
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			tool 1 "tool a" running 3-…`},
		"a worker lost": {lost(tracedAs(domain.RunCompleted, 1, 9)), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" lost 1-5 (the worker was lost)
			turn 1 "turn 1" lost 1-5
			queue 2 "queue" completed 5-6
			attempt 2 "attempt 2" completed 6-9
			turn 2 "turn 1" completed 6-9 30/6/9 by m`},
		"a worker lost in a call": {lost(tracedAs(domain.RunRunning, 1, 9).turn(1, 2, "a")).tool(3, 8, 1, "a", "completed"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" lost 1-5 (the worker was lost)
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			tool 1 "tool a" lost 2-5
			queue 2 "queue" completed 5-6
			attempt 2 "attempt 2" running 6-…
			tool 2 "tool a" completed 7-8
			turn 2 "turn 2" running 8-…`},
		"put back for the model, waiting to be tried again": {
			tracedAs(domain.RunQueued, 1, 9).note(att, 1, 1, 1, 5, domain.SpanFailed, "model_rate_limited", "slow down"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" failed 1-5 (slow down)
			turn 1 "turn 1" failed 1-5 (slow down)
			queue 2 "queue" waiting 5-…`,
		},
		"put back for the database, cancelled in the queue": {
			tracedAs(domain.RunCancelled, 1, 9).note(att, 1, 1, 1, 5, domain.SpanFailed, "unavailable", "later"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" failed 1-5 (later)
			queue 2 "queue" failed 5-9 (the run was cancelled)`,
		},
		"failed for good": {tracedAs(domain.RunFailed, 1, 9).failed("model_rejected"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" failed 1-9 (why)
			turn 1 "turn 1" failed 1-9 (why)`},
		"failed between turns": {tracedAs(domain.RunFailed, 1, 9).turn(1, 8).failed("turn_limit"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" failed 1-9 (why)
			turn 1 "turn 1" completed 1-8 10/2/3 by m`},
		"timed out in a call": {tracedAs(domain.RunTimedOut, 1, 9).turn(1, 8, "a").failed("deadline_exceeded"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" failed 1-9 (why)
			turn 1 "turn 1" completed 1-8 10/2/3 by m
			tool 1 "tool a" failed 8-9 (why)`},
		"waiting for a person": {tracedAs(domain.RunRequiresAction, 1, 9).turn(1, 2, "c").parkedAt(3), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-3 (the run needs a person's decision)
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			wait 1 "tool c" waiting 3-… (approval)`},
		"after a decision": {
			tracedAs(domain.RunCompleted, 1, 9).turn(1, 2, "c").sent("c", 7).note(att, 1, 1, 1, 3, domain.SpanCompleted, "", EndedParked).
				note(wait, 2, 1, 3, 5, domain.SpanCompleted, "approve", "").note(att, 3, 2, 6, -1, "", "", "").tool(3, 8, 2, "c", "completed"), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-3 (the run needs a person's decision)
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			wait 1 "tool c" completed 3-5 (approve)
			queue 2 "queue" completed 5-6
			attempt 2 "attempt 2" completed 6-9
			tool 2 "tool c" completed 6-8
			turn 2 "turn 2" completed 8-9 20/4/6 by m`,
		},
		"decided, and not begun again": {
			tracedAs(domain.RunQueued, 1, 9).turn(1, 2, "c").note(att, 1, 1, 1, 3, domain.SpanCompleted, "", EndedParked).
				note(wait, 2, 1, 3, 5, domain.SpanCompleted, "deny", ""), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-3 (the run needs a person's decision)
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			wait 1 "wait" completed 3-5 (deny)
			queue 2 "queue" waiting 5-…`,
		},
		"nobody decided": {
			tracedAs(domain.RunFailed, 1, 9).failed("action_expired").turn(1, 2, "c").note(att, 1, 1, 1, 3, domain.SpanCompleted, "", EndedParked).
				note(wait, 2, 1, 3, 9, domain.SpanFailed, "action_expired", ""), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" completed 1-3 (the run needs a person's decision)
			turn 1 "turn 1" completed 1-2 10/2/3 by m
			wait 1 "wait" failed 3-9 (action_expired)`,
		},
		"an attempt that nobody noted": {tracedAs(domain.RunRunning, 1, 9).note(att, 1, 1, 1, 3, domain.SpanLost, "", EndedLost).turn(3, 5), `
			queue 1 "queue" completed 0-1
			attempt 1 "attempt 1" lost 1-3 (the worker was lost)
			turn 1 "turn 1" lost 1-3
			attempt 2 "attempt 2" running 3-…
			turn 2 "turn 1" completed 3-5 10/2/3 by m
			turn 2 "turn 2" running 5-…`},
		"the clock was set back": {tracedAs(domain.RunCompleted, -5, -9).turn(1, -30, "a").tool(1, 40, 100, "a", "completed"), `
			queue 1 "queue" completed 0-0
			attempt 1 "attempt 1" completed 0-0
			turn 1 "turn 1" completed 0-0 10/2/3 by m
			turn 1 "turn 2" completed 0-0 20/4/6 by m
			tool 1 "tool a" completed 0-0`},
	} {
		if name == "the clock was set back" {
			c.of.run.StartedAt = nullTime(-5)
		}
		want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", "") + "\n"
		if got := drawn(c.of.spans()); got != want {
			t.Errorf("%s:\n%swant\n%s", name, got, want)
		}
		wantSound(t, name, c.of.spans())
	}
}

// wantSound checks the invariants that every timeline satisfies, however the clocks were adjusted.
func wantSound(t *testing.T, what string, spans []domain.Span) {
	t.Helper()
	end := func(s domain.Span) time.Time {
		if s.FinishedAt == nil {
			return after(1 << 30)
		}
		return s.FinishedAt.Time
	}
	whole := map[int]domain.Span{}
	for i, s := range spans {
		if s.Kind == domain.SpanAttempt {
			whole[s.Attempt] = s
		}
		if end(s).Before(s.StartedAt.Time) || i > 0 && s.StartedAt.Before(spans[i-1].StartedAt.Time) || s.Name == "" || s.Attempt < 1 {
			t.Errorf("%s: wrong times, or order, of\n%s", what, drawn(spans))
		}
	}
	for i, s := range spans {
		part := s.Kind == domain.SpanTurn || s.Kind == domain.SpanTool
		if in, known := whole[s.Attempt]; part && (!known || s.StartedAt.Before(in.StartedAt.Time) || end(s).After(end(in))) {
			t.Errorf("%s: a part outside of its attempt:\n%s", what, drawn(spans))
		}
		for _, o := range spans[i+1:] {
			bothParts := part && (o.Kind == domain.SpanTurn || o.Kind == domain.SpanTool)
			bothWholes := !part && o.Kind != domain.SpanTurn && o.Kind != domain.SpanTool
			tools := s.Kind == domain.SpanTool && o.Kind == domain.SpanTool
			if (bothParts || bothWholes) && !tools && s.StartedAt.Before(end(o)) && o.StartedAt.Before(end(s)) {
				t.Errorf("%s: %s %s and %s %s overlap:\n%s", what, s.Kind, s.Name, o.Kind, o.Name, drawn(spans))
			}
		}
	}
}

// Every timeline satisfies the checks of wantSound, however the clocks were adjusted and whichever
// release wrote the records.
func TestSpansAreAlwaysSound(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	for n := range 3000 {
		at := func() float64 { return chance.Float64()*40 - 10 }
		started := at()
		s := tracedAs(domain.RunStatuses[chance.IntN(len(domain.RunStatuses))], started, at())
		if chance.IntN(8) > 0 {
			s.run.StartedAt = nullTime(started)
		}
		for fence := range int64(chance.IntN(5)) {
			kind := []domain.SpanKind{att, att, wait}[chance.IntN(3)]
			ended := []domain.SpanStatus{domain.SpanCompleted, domain.SpanFailed, domain.SpanLost}[chance.IntN(3)]
			from := at()
			s.note(kind, 2*fence+1, int(fence)+1, from, from-10+chance.Float64()*30, ended, "model_x", "m")
		}
		for range chance.IntN(6) {
			if chance.IntN(2) == 0 {
				s.turn(int64(chance.IntN(9)), at(), "a", "b")
			} else {
				s.tool(int64(chance.IntN(9)), at(), at()+10, "a", "completed")
			}
		}
		if chance.IntN(3) == 0 {
			s.sent("b", at())
		}
		if s.run.Status == string(domain.RunRequiresAction) {
			s.parkedAt(at())
		}
		wantSound(t, fmt.Sprintf("run %d of seed %d", n, seed), s.spans())
		if t.Failed() {
			return
		}
	}
}
