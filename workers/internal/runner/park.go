package runner

import (
	"context"
	"encoding/json"
	"slices"

	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store/executiondb"
	"parley/workers/internal/agentloop"
)

// actionLimit is the error of a run that cannot be parked because its organization has
// executiondb.MaxParked waiting runs.
var actionLimit = &domain.RunError{
	Code: "action_limit", Message: "Too many runs of the organization wait for a person or for results of their clients.",
}

// park ends the attempt at a run that waits for a person's decision or its client's results. The run keeps its position in
// the session but no longer occupies this worker.
func (r *Runner) park(ctx context.Context, a *attempt, out agentloop.Output, parked *agentloop.Parked) {
	// The unsaved events are saved together with the action, so no checkpoint may be written at the
	// same time.
	a.events.closeAndWait(ctx)
	action := domain.RequiredAction{
		Kind: parked.Kind, ToolCallID: parked.Call.ID, Name: parked.Call.Name, Input: parked.Call.Arguments,
		Calls: parked.Calls, ExpiresAt: domain.At(a.now().Add(executiondb.ActionTimeout)),
	}

	// The request to a person must be readable from the database before it is published.
	told, err := a.events.requiresAction(action)
	if err != nil {
		a.log.Error().Err(err).Msg("cannot encode the required action")
		r.finishEmpty(ctx, a)
		return
	}

	// If ctx ends before the write succeeds, result is zero and the run stays with its lease. The
	// sweeper requeues it.
	var result executiondb.Parked
	r.persist(ctx, a, "parking run", func(ctx context.Context) (err error) {
		result, err = r.parking.Park(ctx, a.claim.Held(), action, told)
		return err
	})

	switch {
	case result.Settled: // the outcome of the call has become known, so the next attempt reads it
		r.requeue(ctx, a, 0, nil)
	case result.Full:
		r.finish(ctx, a, out, domain.RunFailed, actionLimit)
	case result.Parked:
		failpoint.Here(failpoint.ParkAfter)
		a.events.publishLast(told)
		r.freeSlots.add(result.Freed)
		r.bus.Done(a.claim.RunID, a.replyTo, nil) // a caller that waits for the run then reads the run's state
		r.changed(a)
		r.metrics.parked.WithLabelValues(string(action.Kind)).Inc()
		a.log.Info().Str("tool", action.Name).Str("kind", string(action.Kind)).Msg("run waits")
	default:
		a.log.Info().Msg("run was cancelled or taken over before it could wait")
	}
}

// requiresAction returns the events that are not yet saved, followed by a run.requires_action
// event. That event is published only after it has been saved; see publishLast.
func (t *eventWriter) requiresAction(action domain.RequiredAction) (executiondb.Chunk, error) {
	data, err := json.Marshal(struct {
		RequiredAction domain.RequiredAction `json:"requiredAction"`
	}{action})
	if err != nil {
		return executiondb.Chunk{}, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	// The lines are copied, because after a failed write the attempt may still finish with its own
	// events.
	lines := domain.AppendEventLine(slices.Clone(t.lines), domain.EventRequiresAction, data)
	return executiondb.Chunk{FirstN: t.first, LastN: t.next, Events: string(lines)}, nil
}

// publishLast publishes the last event of a saved chunk.
func (t *eventWriter) publishLast(written executiondb.Chunk) {
	events, err := domain.EventChunk{Fence: t.held.Fence, First: written.FirstN, Lines: []byte(written.Events)}.Events()
	if err != nil || len(events) == 0 {
		return // subscribers read it from the database
	}

	// Subscribers have received the other events of the chunk already.
	last := events[len(events)-1]
	t.publish(t.held.RunID, domain.EventChunk{
		Fence: last.ID.Fence, First: last.ID.N, Lines: domain.AppendEventLine(nil, last.Type, last.Data),
	})
}
