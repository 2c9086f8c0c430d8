package rundb

import (
	"cmp"
	"time"

	"parley/shared/domain"
)

// betweenAttempts adds the spans before, between and after the attempts, in which the run waited
// for a worker or for a person.
func (d *spanBuilder) betweenAttempts(attempts []tracedAttempt) {
	// free is the time at which the run began to wait for a worker: its acceptance, or the end of
	// its last attempt or of its last wait for a person.
	free := d.start
	for i, a := range attempts {
		// Between two attempts the run may first have waited for a person.
		if i > 0 {
			free = d.addWaits(attempts[i-1], a.from)
		}
		if i == 0 || domain.At(a.from).After(domain.At(free).Time) {
			d.add(domain.Span{Kind: domain.SpanQueue, Name: "queue", Attempt: a.number, Status: domain.SpanCompleted}, free, a.from)
		}
	}
	d.afterAttempts(attempts, free)
}

// afterAttempts adds the spans after the last attempt, or after the run's acceptance if
// there was no attempt.
func (d *spanBuilder) afterAttempts(attempts []tracedAttempt, free time.Time) {
	// If there was no attempt, the run waited from its acceptance on.
	last := tracedAttempt{from: free, to: free}

	if len(attempts) > 0 {
		last = attempts[len(attempts)-1]
	}

	// If the last attempt is still running, no wait follows it.
	if last.status != domain.SpanRunning {
		free = d.addWaits(last, d.end)
	}

	status := domain.RunStatus(d.run.Status)

	queue := domain.Span{Kind: domain.SpanQueue, Name: "queue", Attempt: last.number + 1, Status: domain.SpanWaiting}
	switch {
	case status == domain.RunRequiresAction:
		span := domain.Span{Kind: domain.SpanWait, Name: "wait", Attempt: max(last.number, 1), Status: domain.SpanWaiting}
		if action := d.run.Stored().Run.RequiredAction; action != nil {
			span.Name, span.ToolCallID, span.Message = cmp.Or(action.Name, span.Name), action.ToolCallID, string(action.Kind)
		}
		d.add(span, free, d.end)
	case status == domain.RunQueued:
		d.add(queue, free, d.end)

	// The run ended while it was queued, for example by a cancellation.
	case status.Terminal() && !last.ends && !d.endedWaiting():
		queue.Status = domain.SpanFailed
		_, queue.Message = d.ended()
		d.add(queue, free, d.end)
	}
}

// endedWaiting reports whether the run ended while it was waiting for a person. Its last record is
// then a wait without a decision.
func (d *spanBuilder) endedWaiting() bool {
	if len(d.notes) == 0 {
		return false
	}
	last := d.notes[len(d.notes)-1]
	return last.Kind == domain.SpanWait && last.Status != domain.SpanCompleted
}

// addWaits adds the spans in which the run waited for a person after an attempt. No span extends
// beyond next, the time at which the following attempt began. addWaits returns the end of the last
// wait.
func (d *spanBuilder) addWaits(a tracedAttempt, next time.Time) time.Time {
	// Waits are limited, so that they neither overlap nor extend into the next attempt, even if a
	// clock was adjusted.
	free := a.to
	for _, n := range d.notes {
		if n.Kind != domain.SpanWait || n.Attempt != a.number {
			continue
		}

		from := clamp(n.BeganAt, free, next)
		free = clamp(n.EndedAt.Time, from, next)
		d.add(domain.Span{
			Kind: domain.SpanWait, Name: d.nameFor(n.CallID), Attempt: a.number, Status: n.Status, ToolCallID: n.CallID, Message: n.Code,
		}, from, free)
	}
	return free
}

// nameFor returns the name of the tool that the call with this id uses, or "wait" if the effect
// ledger does not contain the call.
func (d *spanBuilder) nameFor(callID string) string {
	if e, known := d.effects[callID]; known {
		return e.Name
	}
	return "wait"
}
