package dispatch

import (
	"context"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// ReadRuns are the operations on runs that the watch of package readers needs.
type ReadRuns struct{ *Dispatcher }

// Working reports whether a run is queued or running.
func (r ReadRuns) Working(ctx context.Context, org, runID string) (bool, error) {
	// A run that was deleted is not working. The watch then has nothing to cancel.
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

// SaveShown stores the shown text of a run as its answer in the session's history.
func (r ReadRuns) SaveShown(ctx context.Context, org, runID, text string) error {
	err := r.store.Sessions.SavePlayback(ctx, org, runID, domain.Playback{Text: text})
	if apierr.CodeFor(err) == apierr.NotFound { // erased in the meantime
		return nil
	}
	return err
}

// Awaited reports whether a request of this process waits for a run.
func (d *Dispatcher) Awaited(runID string) bool {
	d.waiting.mu.Lock()
	defer d.waiting.mu.Unlock()
	return d.waiting.runs[runID] != nil
}

// retried returns the run of an earlier attempt of the same request, if its client has announced a
// retry and the run was not cancelled. Otherwise it returns nil.
func (r *Submitter) retried(ctx context.Context, s *Submission) (*Submitted, error) {
	if s.Key != "" {
		return nil, nil //nolint:nilnil // the key identifies the run
	}

	// The client chooses the value that identifies its attempts, so another organization could send
	// the same value. It must not receive this run.
	org, runID, ok := r.readers.Earlier(s.Attempt)
	if !ok || org != s.Caller.OrganizationID {
		return nil, nil //nolint:nilnil // no run
	}
	run, err := r.store.Runs.ShortRun(ctx, org, "", runID)
	switch {
	case apierr.CodeFor(err) == apierr.NotFound, err == nil && (run.Erased || run.Run.Status == domain.RunCancelled):
		return nil, nil //nolint:nilnil // no run
	case err != nil:
		return nil, err
	}
	return attach(s, &run)
}
