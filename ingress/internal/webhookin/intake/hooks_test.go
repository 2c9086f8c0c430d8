package intake

import (
	"context"
	"strconv"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/hookdb"
)

// A flood of unknown hook ids does not remove known hooks from the cache and does not block their
// deliveries.
func TestUnknownHooksDoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	stuck, reading := make(chan struct{}), make(chan struct{})
	l := NewHooks(func(_ context.Context, id string) (hookdb.ReceivingHook, error) {
		switch id {
		case "live":
			return hookdb.ReceivingHook{Hook: domain.Hook{ID: id, Enabled: true, MessageTemplate: "x"}}, nil
		case "stuck":
			reading <- struct{}{}
			<-stuck
		}
		return hookdb.ReceivingHook{}, apierr.New(apierr.NotFound, "none")
	}, nil)
	live := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Get(ctx, "live"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	live("at first")
	for n := range 3 * maxMissing {
		if _, err := l.Get(t.Context(), strconv.Itoa(n)); apierr.CodeFor(err) != apierr.NotFound {
			t.Fatal(err)
		}
	}
	if len(l.known) != 1 || len(l.missing) > maxMissing {
		t.Errorf("%d known and %d unknown hooks are cached", len(l.known), len(l.missing))
	}
	done := make(chan struct{})
	for range hookReads {
		go func() {
			_, _ = l.Get(context.WithoutCancel(t.Context()), "stuck")
			done <- struct{}{}
		}()
	}
	for range hookReads {
		<-reading
	}
	old := l.known["live"]
	old.until = time.Now()
	l.known["live"] = old
	live("while others are looked for")
	close(stuck)
	for range hookReads {
		<-done
	}
	// A hook that has had no delivery for hookKept is removed from the cache.
	old.until = time.Now().Add(-2 * hookKept)
	l.known["live"], l.swept = old, time.Time{}
	_, _ = l.Get(t.Context(), "another")
	if len(l.known) != 0 || len(l.missing) == 0 {
		t.Errorf("%d hooks are cached", len(l.known))
	}
}
