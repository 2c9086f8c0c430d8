package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"parley/shared/apierr"
)

// TestConversionsTakeTurns lets organizations convert documents simultaneously. One conversion runs
// at a time, in the order of arrival, and an organization that already waits is rejected.
func TestConversionsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConversions()
		leave, err := c.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.enter(t.Context(), "a"); apierr.CodeFor(err) != apierr.RateLimited {
			t.Errorf("a second import of an organization: %v", err)
		}

		entered := make(chan func(), 1)
		go func() {
			leave, err := c.enter(t.Context(), "b")
			if err != nil {
				t.Error(err)
			}
			entered <- leave
		}()
		synctest.Wait()
		if _, err := c.enter(t.Context(), "b"); apierr.CodeFor(err) != apierr.RateLimited || len(entered) > 0 {
			t.Errorf("a second import of a waiting organization: %v, %d entered", err, len(entered))
		}

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.enter(gone, "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled import: %v", err)
		}
		leave()
		(<-entered)()
		if len(c.orgs) != 0 || len(c.slot) != 0 {
			t.Errorf("left: %v, %d", c.orgs, len(c.slot))
		}
	})
}
