package migrations

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func TestPersist(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for name, c := range map[string]struct {
		fails  []error // errors of the first calls
		tries  int
		want   error
		pauses int
	}{
		"at once":            {tries: 3},
		"lock not available": {fails: []error{stateError("55P03"), stateError("55P03")}, tries: 3, pauses: 2},
		"deadlock, wrapped":  {fails: []error{fmt.Errorf("up: %w", stateError("40P01"))}, tries: 3, pauses: 1},
		"statement's time":   {fails: []error{stateError("57014")}, tries: 3, pauses: 1},
		"too often":          {fails: []error{stateError("55P03"), stateError("55P03"), other}, tries: 2, want: stateError("55P03"), pauses: 1},
		"for good":           {fails: []error{stateError("42501")}, tries: 3, want: stateError("42501")},
		"not of the server":  {fails: []error{other}, tries: 3, want: other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, pauses := 0, 0
			err := persist(t.Context(), c.tries, func(context.Context, time.Duration) error { pauses++; return nil }, func() error {
				steps++
				if steps <= len(c.fails) {
					return c.fails[steps-1]
				}
				return nil
			})
			if !errors.Is(err, c.want) || pauses != c.pauses || steps != c.pauses+1 {
				t.Errorf("%v after %d steps and %d pauses", err, steps, pauses)
			}
		})
	}
}

// When the context ends, persist returns immediately, with the error of the last attempt.
func TestPersistEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := persist(ctx, 3, sleep, func() error { cancel(); return stateError("57014") })
	if !errors.Is(err, stateError("57014")) {
		t.Errorf("cancelled in a step: %v", err)
	}
	busy := 0
	err = persist(t.Context(), 3, func(_ context.Context, d time.Duration) error { return sleep(ctx, d) }, func() error { busy++; return stateError("55P03") })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, stateError("55P03")) || busy != 1 {
		t.Errorf("cancelled in a pause: %v after %d", err, busy)
	}
}
