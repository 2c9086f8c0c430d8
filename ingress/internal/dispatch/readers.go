package dispatch

import (
	"context"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// ReadRuns lets package readers, which cancels runs that no client reads, use a Dispatcher. Its
// methods act for any principal of the organization.
type ReadRuns struct{ *Dispatcher }

// Working reports whether a run is queued or running.
func (r ReadRuns) Working(ctx context.Context, org, runID string) (bool, error) {
	// A deleted run counts as not working, because there is nothing to cancel.
	run, err := r.store.Runs.ShortRun(ctx, org, "", runID)
	if apierr.CodeFor(err) == apierr.NotFound {
		return false, nil
	}
	return err == nil && (run.Run.Status == domain.RunQueued || run.Run.Status == domain.RunRunning), err
}

// Cancel cancels a run. A run that has already finished does not change.
func (r ReadRuns) Cancel(ctx context.Context, org, runID string) error {
	_, err := r.Dispatcher.Cancel(ctx, org, "", runID)
	return err
}

// SaveShown stores the part of the answer that the client has shown. In the session's history, this
// part takes the place of the answer.
func (r ReadRuns) SaveShown(ctx context.Context, org, runID, text string) error {
	err := r.store.Sessions.SavePlayback(ctx, org, runID, domain.Playback{Text: text})
	if apierr.CodeFor(err) == apierr.NotFound { // the run was erased in the meantime
		return nil
	}
	return err
}

// Awaited reports whether a request in this process waits for the run.
func (d *Dispatcher) Awaited(runID string) bool {
	d.waiting.mu.Lock()
	defer d.waiting.mu.Unlock()
	return d.waiting.runs[runID] != nil
}
