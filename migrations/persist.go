package migrations

import (
	"context"
	"errors"
	"slices"
	"time"
)

// tries is the maximum number of attempts to migrate. Each attempt may wait 2 s for a lock and is
// followed by a pause, so all attempts together take three minutes. An autovacuum releases its
// locks within this time.
const tries = 60

// retryPause is the time between two attempts, in which the statements that queued up after a
// waiting migration can run. Shorter pauses would keep those statements waiting most of the time.
const retryPause = time.Second

// persist calls step until it succeeds, fails permanently or has been called the maximum number of
// times. sleep waits between attempts. The result is nil or the error of the last attempt. If ctx
// ends during a pause, its cause is joined to that error. step must be idempotent.
func persist(ctx context.Context, tries int, sleep func(context.Context, time.Duration) error, step func() error) error {
	for n := 1; ; n++ {
		err := step()
		if n == tries || !isBusy(err) || ctx.Err() != nil {
			return err
		}
		if waitErr := sleep(ctx, retryPause); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// busy lists the SQLSTATEs of statements that could not lock a table: lock timeout, deadlock, and
// the statement timeout while waiting for several locks. Other errors, such as a constraint that
// existing rows violate, would occur again.
var busy = []string{"55P03", "40P01", "57014"}

// isBusy reports whether err has one of the SQLSTATEs in busy. Any driver may have returned err.
func isBusy(err error) bool {
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && slices.Contains(busy, state.SQLState())
}
