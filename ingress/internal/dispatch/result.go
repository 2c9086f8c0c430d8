package dispatch

import (
	"context"
	"time"

	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/store/rundb"
)

// ErasedKey returns the error for an idempotency key whose run was erased. For a run that a request
// names by its id, see [ErasedRun].
func ErasedKey() error {
	return apierr.New(apierr.Erased, "the run of this idempotency key was erased by its organization")
}

// ExpiredKey returns the error for an idempotency key whose run has expired while the request was
// reading it.
func ExpiredKey() error {
	e := apierr.New(apierr.Unavailable, "the run of this idempotency key has just expired; try again")
	e.RetryAfter = time.Second
	return e
}

// ReadResult returns the JSON run object of a finished run. If the result is Deferred, it first
// calls reserve, which waits until there is memory for the result, and then reads it. ReadResult
// returns ErasedKey if the run was erased. reserve is not called for small results.
func (r *Submitter) ReadResult(ctx context.Context, run *rundb.StoredRun, reserve stream.Reserve) ([]byte, error) {
	// Lookups by key read only the sizes of large results.
	if run.Deferred > 0 {
		if err := reserve(run.Deferred); err != nil {
			return nil, err
		}

		// The run may have expired or been erased since it was found.
		whole, err := r.store.Runs.RunByID(ctx, run.OrganizationID, "", run.Run.ID)
		if apierr.CodeFor(err) == apierr.NotFound {
			return nil, ExpiredKey()
		}
		if err != nil {
			return nil, err
		}
		run = &whole
	}
	if run.Erased {
		return nil, ErasedKey()
	}
	return run.Result()
}

// ErasedRun returns the error for a run, named by its id, that its organization has erased.
func ErasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }
