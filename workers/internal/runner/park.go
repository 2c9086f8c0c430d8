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

// actionLimit is the error of a run that cannot be parked because its organization already has
// executiondb.MaxParked parked runs.
var actionLimit = &domain.RunError{
	Code: "action_limit", Message: "Too many runs of the organization wait for a person or for results of their clients.",
}

// park ends the attempt at a run that waits for a person's decision or for its client's results.
// The run keeps its position in the session but no longer occupies a slot of this worker. The
// decision or the results make another attempt possible. The action expires after
// executiondb.ActionTimeout.
func (r *Runner) park(ctx context.Context, a *attempt, out agentloop.Output, parked *agentloop.Parked) {
	// The unsaved events are saved together with the action, so no checkpoint may save them at the
	// same time.
	a.events.closeAndWait(ctx)
	action := domain.RequiredAction{
		Kind: parked.Kind, ToolCallID: parked.Call.ID, Name: parked.Call.Name, Input: parked.Call.Arguments,
		Calls: parked.Calls, ExpiresAt: domain.At(a.now().Add(executiondb.ActionTimeout)),
	}

	// The required action must be in the database before its event is published.
	reported, err := a.events.requiresAction(action)
	if err != nil {
		a.log.Error().Err(err).Msg("cannot encode the required action")
		r.finishEmpty(ctx, a)
		return
	}

	// If ctx ends before the write succeeds, result is zero and the run stays leased. The sweeper
	// requeues the run after the lease has expired.
	var result executiondb.Parked
	r.persist(ctx, a, "parking run", func(ctx context.Context) (err error) {
		result, err = r.parking.Park(ctx, a.claim.Held(), action, reported)
		return err
	})

	switch {
	case result.Known: // the outcome of the call has become known, so the next attempt can read it
		r.requeue(ctx, a, 0, nil)
	case result.Full:
		r.finish(ctx, a, out, domain.RunFailed, actionLimit)
	case result.Parked:
		failpoint.Here(failpoint.ParkAfter)
		a.events.publishLast(reported)
		r.freeSlots.add(result.Freed)
		r.bus.Done(a.claim.RunID, a.replyTo, nil) // without a result, a caller that waits for the run reads the run's state
		r.changed(a)
		r.metrics.parked.WithLabelValues(string(action.Kind)).Inc()
		a.log.Info().Str("tool", action.Name).Str("kind", string(action.Kind)).Msg("run is waiting for an action")
	default:
		a.log.Info().Msg("run was cancelled, or taken over by another worker, before it could wait")
	}
}

// requiresAction returns the unsaved events, followed by a run.requires_action event. publishLast
// publishes that event after it has been saved.
func (t *eventWriter) requiresAction(action domain.RequiredAction) (executiondb.Chunk, error) {
	data, err := json.Marshal(struct {
		RequiredAction domain.RequiredAction `json:"requiredAction"`
	}{action})
	if err != nil {
		return executiondb.Chunk{}, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	// Append to a copy of t.lines: if the write fails, the attempt may still finish, without this
	// event.
	lines := domain.AppendEventLine(slices.Clone(t.lines), domain.EventRequiresAction, data)
	return executiondb.Chunk{FirstN: t.first, LastN: t.next, Events: string(lines)}, nil
}

// publishLast publishes the last event of a chunk that has been saved.
func (t *eventWriter) publishLast(written executiondb.Chunk) {
	events, err := domain.EventChunk{Fence: t.held.Fence, First: written.FirstN, Lines: []byte(written.Events)}.Events()
	if err != nil || len(events) == 0 {
		return // subscribers read the event from the database
	}

	// Subscribers have already received the other events of the chunk.
	last := events[len(events)-1]
	t.publish(t.held.RunID, domain.EventChunk{
		Fence: last.ID.Fence, First: last.ID.N, Lines: domain.AppendEventLine(nil, last.Type, last.Data),
	})
}
