package rundb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/shared/domain"
)

// tracedAttempt is an attempt at a run with its start and end.
type tracedAttempt struct {
	number   int
	fence    int64
	from, to time.Time
	status   domain.SpanStatus
	code     string
	message  string
	refusal  *domain.ProviderError
	ends     bool // the attempt finished the run
}

// spanBuilder converts the trace of a run to spans. Clocks may have been adjusted during the run.
// If the recorded time of a step is before that of an earlier step, the step is moved after the
// earlier step.
type spanBuilder struct {
	*trace
	result  outcome
	start   time.Time
	end     time.Time // end of the run, or the current time if the run is open
	spans   []domain.Span
	pending []tracedCall // calls from the last turn that are not recorded in a step yet
	turns   int
	used    domain.Usage // sum of the usage of the turns that are recorded in steps
}

// spans returns the run's spans, ordered by start time.
func (s *trace) spans() []domain.Span {
	d := &spanBuilder{trace: s, result: s.run.outcome(), start: s.run.CreatedAt, end: s.run.Now, spans: []domain.Span{}}
	if s.run.FinishedAt.Valid {
		d.end = s.run.FinishedAt.Time
	}

	// If a clock was set back, the recorded end can be before the start.
	d.end = latest(d.end, d.start)
	attempts := d.attempts()
	d.betweenAttempts(attempts)
	for i, a := range attempts {
		d.attempt(a, d.stepsFor(attempts, i))
	}

	slices.SortStableFunc(d.spans, func(a, b domain.Span) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt.Time), cmp.Compare(rank[a.Kind], rank[b.Kind]))
	})
	return d.spans
}

// rank orders spans that have the same start time. A span comes before the spans that it contains.
// Waits precede attempts.
var rank = map[domain.SpanKind]int{domain.SpanQueue: 0, domain.SpanWait: 1, domain.SpanAttempt: 2, domain.SpanTurn: 3, domain.SpanTool: 4}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clamp returns t limited to the range between from and to. If to is before from, it returns from.
func clamp(t, from, to time.Time) time.Time {
	if t.After(to) {
		t = to
	}
	return latest(t, from)
}

// attempts returns the attempts at the run in order. The first attempt gets a row only when it ends
// without finishing the run, so it may have no row. Later attempts get a row when they begin.
func (d *spanBuilder) attempts() []tracedAttempt {
	// A run that finished in its first attempt has no rows of attempts. That attempt began when the
	// run started.
	var out []tracedAttempt
	if d.result.StartedAt != nil {
		out = append(out, tracedAttempt{number: 1, fence: 1, from: d.result.StartedAt.Time, status: domain.SpanRunning})
	}

	for _, n := range d.notes {
		if n.Kind != domain.SpanAttempt {
			continue
		}
		a := tracedAttempt{
			number: n.Attempt, fence: n.Fence, from: n.BeganAt, to: n.EndedAt.Time, status: n.Status, code: n.Code, message: n.Message,
			refusal: n.refusal(),
		}

		// If the first attempt has a row, the row replaces the attempt that was assumed above.
		if n.Attempt == 1 {
			out = out[:0]
		}
		if !n.EndedAt.Valid {
			a.status = domain.SpanRunning
		}
		out = append(out, a)
	}

	out = d.addUnrecordedAttempt(out)

	// Each attempt begins at or after the end of the previous attempt.
	began := d.start
	for i := range out {
		a := &out[i]
		if a.status == domain.SpanRunning {
			d.close(a, i == len(out)-1)
		}
		a.from = clamp(a.from, began, d.end)
		a.to = clamp(a.to, a.from, d.end)
		began = a.to
	}

	return out
}

// addUnrecordedAttempt adds an attempt that was not recorded: the running attempt, or the attempt
// that produced the answer. Recording may have failed, or a binary of the previous release may have
// executed the attempt.
func (d *spanBuilder) addUnrecordedAttempt(attempts []tracedAttempt) []tracedAttempt {
	// Only two states prove that an attempt is missing: a running run has a running attempt, and a
	// completed run has an attempt that completed it.
	status := domain.RunStatus(d.run.Status)
	if len(attempts) == 0 || status != domain.RunRunning && status != domain.RunCompleted {
		return attempts
	}

	last := attempts[len(attempts)-1]
	if last.status == domain.SpanRunning {
		return attempts
	}

	// The attempt begins after everything that is recorded, including waits for a person.
	begun := last.to
	for _, n := range d.notes {
		begun = latest(begun, n.EndedAt.Time)
	}

	number := max(d.run.Attempts, last.number+1)
	return append(attempts, tracedAttempt{number: number, fence: last.fence + 1, from: begun, status: domain.SpanRunning})
}

// close sets the end and the status of an attempt whose end is not recorded. last is true for the
// last attempt of the run.
func (d *spanBuilder) close(a *tracedAttempt, last bool) {
	// The state of the run shows how its last attempt ended.
	status := domain.RunStatus(d.run.Status)
	switch {
	case !last: // not recorded, for example by a binary of the previous release
		a.to, a.status, a.message = d.end, domain.SpanLost, EndedLost
		if next := slices.IndexFunc(d.notes, func(n tracedNote) bool { return n.Kind == domain.SpanAttempt && n.Fence > a.fence }); next >= 0 {
			a.to = d.notes[next].BeganAt
		}
	// If the run is still running, its last attempt keeps the status running.
	case status == domain.RunRunning:
		a.to = d.end
	case status == domain.RunRequiresAction:
		a.to, a.status, a.message = d.run.ParkedAt.Time, domain.SpanCompleted, ParkedReason(d.run.Stored().Run.RequiredAction)
	// If the run is queued again, the reason why its last attempt ended was not recorded.
	case !status.Terminal():
		a.to, a.status, a.message = d.end, domain.SpanLost, EndedBack
	case status == domain.RunCompleted:
		a.to, a.status, a.ends = d.end, domain.SpanCompleted, true
	default:
		a.to, a.status, a.ends = d.end, domain.SpanFailed, true
		a.code, a.message = d.ended()
	}
}

// ended returns the reason why a run ended without an answer: the code and the message of its
// error. A run without an error was cancelled.
func (d *spanBuilder) ended() (code, message string) {
	if d.result.Error != nil {
		return d.result.Error.Code, d.result.Error.Message
	}
	return d.run.Status, "the run was cancelled"
}

// add appends a span whose bounds are the arguments from and to. A running or waiting span has no
// end.
func (d *spanBuilder) add(span domain.Span, from, to time.Time) {
	span.StartedAt = domain.At(from)
	if span.Status != domain.SpanRunning && span.Status != domain.SpanWaiting {
		finished := domain.At(to)
		span.FinishedAt = &finished
	}
	d.spans = append(d.spans, span)
}

// stepsFor returns the steps of an attempt: those under its fence, or under a later fence that
// was not recorded.
func (d *spanBuilder) stepsFor(attempts []tracedAttempt, i int) []tracedStep {
	var out []tracedStep
	for _, step := range d.steps {
		if (i == 0 || step.fence >= attempts[i].fence) && (i == len(attempts)-1 || step.fence < attempts[i+1].fence) {
			out = append(out, step)
		}
	}
	return out
}

// attempt adds the spans of an attempt and of its steps.
func (d *spanBuilder) attempt(a tracedAttempt, steps []tracedStep) {
	d.add(domain.Span{
		Kind: domain.SpanAttempt, Name: fmt.Sprintf("attempt %d", a.number), Attempt: a.number, Status: a.status, Message: a.message,
		Provider: a.refusal,
	}, a.from, a.to)

	// A turn begins after the previous step. A tool call may have begun earlier, because calls of
	// one turn run in parallel. The duration of a tool call determines its start, but a call cannot
	// begin before its turn has ended.
	free, asked := a.from, a.from // the end of the last step and the end of the last turn
	for _, step := range steps {
		at := clamp(step.at, free, a.to)
		if step.Turn != nil {
			d.turn(a, step.Turn, free, at)
			asked = at
		} else {
			d.tool(a, step.Tool.Call, clamp(at.Add(-time.Duration(step.Tool.Call.DurationMS)*time.Millisecond), asked, at), at)
		}
		free = at
	}

	d.addUnrecorded(a, free)
}

// turn adds the span of a model call, and adds the call's usage to the sum d.used. The turn's tool
// calls are pending until their steps follow.
func (d *spanBuilder) turn(a tracedAttempt, t *tracedTurn, from, to time.Time) {
	d.turns++
	d.used.InputTokens += t.Usage.InputTokens
	d.used.OutputTokens += t.Usage.OutputTokens
	d.used.CostMicros += t.CostMicros
	d.pending = t.ToolCalls
	span := domain.Span{
		Kind: domain.SpanTurn, Name: fmt.Sprintf("turn %d", d.turns), Attempt: a.number, Status: domain.SpanCompleted, Model: t.Model,
		InputTokens: &t.Usage.InputTokens, OutputTokens: &t.Usage.OutputTokens, CostMicros: &t.CostMicros,
	}
	span.Text, span.TextCut = domain.FirstRunes(t.Text, domain.MaxSpanText)
	for _, call := range t.ToolCalls {
		span.ToolCallIDs = append(span.ToolCallIDs, call.ID)
	}
	d.add(span, from, to)
}

// tool adds the span of a tool call, which is then no longer pending.
func (d *spanBuilder) tool(a tracedAttempt, call domain.ToolCall, from, to time.Time) {
	// Steps are recorded in the order of the calls, so all calls up to the given one are recorded.
	if i := slices.IndexFunc(d.pending, func(p tracedCall) bool { return p.ID == call.ID }); i >= 0 {
		d.pending = d.pending[i+1:]
	}

	// The output of a failed call is an object that contains the text of the error.
	span := domain.Span{Kind: domain.SpanTool, Name: call.Name, Attempt: a.number, Status: domain.SpanCompleted, ToolCallID: call.ID}
	if call.Status == "failed" {
		span.Status = domain.SpanFailed
		var said struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(call.Output, &said) == nil {
			span.Message = said.Error
		}
	}

	d.add(span, from, to)
}

// addUnrecorded adds the span of the work that is not recorded in a step: the current work of a
// running attempt, or the last work of a finished one. The turn that produces the answer is such a
// span.
func (d *spanBuilder) addUnrecorded(a tracedAttempt, free time.Time) {
	span := domain.Span{Attempt: a.number, Status: a.status}
	if a.status == domain.SpanFailed {
		span.Message = a.message
	}

	// If a call is pending, the work after the last step was a tool call. Otherwise it was a turn.
	inTool := len(d.pending) > 0
	switch {
	case !d.wasBusy(a, inTool):
		return
	case inTool:
		call := d.pending[0]
		span.Kind, span.Name, span.ToolCallID = domain.SpanTool, call.Name, call.ID

		// The ledger has a more precise start time for the call than the end of the last step.
		if sent := d.effects[call.ID].SentAt; sent.Valid {
			free = clamp(sent.Time, free, a.to)
		}
	default:
		span.Kind, span.Name = domain.SpanTurn, fmt.Sprintf("turn %d", d.turns+1)
		if a.ends && a.status == domain.SpanCompleted {
			// The last turn is not recorded in a step. Its usage is the difference between the
			// run's total and the usage of the recorded turns.
			used := d.result.Usage
			input, output := max(used.InputTokens-d.used.InputTokens, 0), max(used.OutputTokens-d.used.OutputTokens, 0)
			cost := max(used.CostMicros-d.used.CostMicros, 0)
			span.Model, span.InputTokens, span.OutputTokens, span.CostMicros = used.Model, &input, &output, &cost
			span.Text, span.TextCut = domain.FirstRunes(d.answer, domain.MaxSpanText)
		}
	}

	d.add(span, free, a.to)
}

// wasBusy reports whether an attempt ended during a model call or, if inTool is true, during a tool
// call.
func (d *spanBuilder) wasBusy(a tracedAttempt, inTool bool) bool {
	// A timeout or a cancellation may interrupt either kind of work. The code of any other failure
	// shows which work failed.
	status := domain.RunStatus(d.run.Status)
	stopped := a.ends && (status == domain.RunTimedOut || status == domain.RunCancelled)
	switch {
	case a.status == domain.SpanCompleted:
		return a.ends && !inTool
	case a.status != domain.SpanFailed || stopped:
		return true
	case inTool:
		return strings.HasPrefix(a.code, "tool_")
	default:
		return strings.HasPrefix(a.code, "model_")
	}
}

// Reasons why an attempt ended without finishing its run.
const (
	EndedLost   = "the worker was lost"
	EndedBack   = "the worker requeued the run"
	EndedParked = "the run needs a person's decision"
	EndedClient = "the run needs results of its client's tools"
)

// ParkedReason returns why an attempt ended: the run waits for the given required action. action is
// nil if it is unknown.
func ParkedReason(action *domain.RequiredAction) string {
	if action != nil && action.Kind == domain.ActionClientTools {
		return EndedClient
	}
	return EndedParked
}
