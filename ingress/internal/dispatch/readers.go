package dispatch

import (
	"context"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// ReadRuns adapts the Dispatcher to package readers, which cancels runs that no client reads.
type ReadRuns struct{ *Dispatcher }

// Working reports whether a run is queued or running.
func (r ReadRuns) Working(ctx context.Context, org, runID string) (bool, error) {
	// A deleted run is not working, so package readers has nothing to cancel.
	run, err := r.store.Runs.ShortRun(ctx, org, "", runID)
	if apierr.CodeFor(err) == apierr.NotFound {
		return false, nil
	}
	return err == nil && (run.Run.Status == domain.RunQueued || run.Run.Status == domain.RunRunning), err
}

// Cancel cancels a run.
func (r ReadRuns) Cancel(ctx context.Context, org, runID string) error {
	_, err := r.Dispatcher.Cancel(ctx, org, "", runID)
	return err
}

// SaveShown stores the text that the client has shown as the run's answer in the session's history.
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

// retried returns the run of an earlier attempt of the same request, if the client has announced
// that it retries and the run was not cancelled. Otherwise it returns nil.
func (r *Submitter) retried(ctx context.Context, s *Submission) (*Submitted, error) {
	if s.Key != "" {
		return nil, nil //nolint:nilnil // with an idempotency key, the key identifies the run
	}

	// The client chooses the value that identifies its attempts. Another organization could send
	// the same value, and it must not receive this run.
	org, runID, ok := r.readers.Earlier(s.Attempt)
	if !ok || org != s.Caller.OrganizationID {
		return nil, nil //nolint:nilnil // no earlier attempt has a run
	}
	run, err := r.store.Runs.ShortRun(ctx, org, "", runID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound, err == nil && (run.Erased || run.Run.Status == domain.RunCancelled):
		return nil, nil //nolint:nilnil // the run was deleted, erased or cancelled
	case err != nil:
		return nil, err
	}
	return attach(s, &run)
}
