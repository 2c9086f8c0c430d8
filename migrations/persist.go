package migrations

import (
	"context"
	"errors"
	"slices"
)

// tries bounds how often migrations are begun again: with a wait for a lock of up to 2 s
// and a pause after each, three minutes and more than an autovacuum needs to give way.
const tries = 60

// persist runs step until it succeeds, fails for good or was tried so many times.
func persist(ctx context.Context, tries int, pause func(context.Context) error, step func() error) error {
	for n := 1; ; n++ {
		err := step()
		if n == tries || !isBusy(err) || ctx.Err() != nil {
			return err
		}
		if waitErr := pause(ctx); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// busy are the SQLSTATEs of a migration that others kept from a table: a lock that was not
// available in time, a deadlock, and the end of the time that a statement had for several locks.
var busy = []string{"55P03", "40P01", "57014"}

func isBusy(err error) bool {
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return ok && slices.Contains(busy, state.SQLState())
}
