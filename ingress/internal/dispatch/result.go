package dispatch

import (
	"time"

	"parley/shared/apierr"
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

// ErasedRun returns the error for a run, named by its id, that its organization has erased.
func ErasedRun() error { return apierr.New(apierr.Erased, "this run was erased by its organization") }
