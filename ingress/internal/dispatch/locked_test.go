package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
	"parley/shared/store/pg"
	"parley/shared/testkit"
)

// lockSession locks a session of the test's organization. The caller must call release.
func (d *testEnv) lockSession(session string) (release func()) {
	d.Helper()
	tx, err := d.raw.BeginTx(d.Context(), nil)
	must(d.T, err)
	_, err = tx.ExecContext(d.Context(), `SELECT FROM sessions WHERE org_id = $1 AND session_id = $2 FOR UPDATE`, d.org, session)
	must(d.T, err)
	return func() { d.Helper(); must(d.T, tx.Rollback()) }
}

// While a session is locked, requests for this session get the status 503. Requests of other
// organizations are served without delay.
func TestALockedSessionDelaysOnlyItsCallers(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	other := d.withOrganization("bob")
	first, err := d.Submit(t.Context(), d.run("s"))
	must(t, err)
	d.Release(first)
	release := d.lockSession("s")
	stuck := d.run("s")
	refused := make(chan error, 1)
	go func() { _, err := d.Submit(t.Context(), stuck); refused <- err }()
	for n := range 40 {
		began := time.Now()
		s, err := other.Submit(t.Context(), other.run("s"))
		must(t, err)
		other.Release(s)
		if took := time.Since(began); took > testkit.Within(time.Second) {
			t.Errorf("another organization's run %d was accepted after %s", n, took)
		}
	}
	err = <-refused
	if coded := (*apierr.Error)(nil); !errors.As(err, &coded) || coded.Code != apierr.Unavailable || coded.RetryAfter != time.Second {
		t.Errorf("a caller of the locked session got %v", err)
	}
	release()
	s, err := d.Submit(t.Context(), stuck)
	must(t, err)
	d.Release(s)
	var n int
	must(t, d.raw.QueryRowContext(t.Context(), `SELECT count(*) FROM runs WHERE org_id = $1`, d.org).Scan(&n))
	if n != 2 {
		t.Errorf("%d runs in the session, want 2", n)
	}
}

// A request succeeds if the lock of its session is released in time.
func TestABriefLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	first, err := d.Submit(t.Context(), d.run("s"))
	must(t, err)
	d.Release(first)
	release := d.lockSession("s")
	accepted := make(chan error, 1)
	go func() {
		s, err := d.Submit(t.Context(), d.run("s"))
		if err == nil {
			d.Release(s)
		}
		accepted <- err
	}()
	for range 30 { // sends other requests for a longer time than a batch waits for the lock
		s, err := d.Submit(t.Context(), d.run(""))
		must(t, err)
		d.Release(s)
		<-time.After(10 * time.Millisecond)
	}
	release()
	must(t, <-accepted)
}

func TestALockIsWaitedForUntilTheRequestEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Minute, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			maximum := min(limit, lockedTime)
			began, tries := time.Now(), 0
			_, err := whileLocked(ctx, func() (int, error) { tries++; return 0, pg.ErrLocked })
			if took := time.Since(began); !pg.IsLocked(err) || took > maximum || took < maximum/2 || tries < 4 || tries > 20 {
				t.Errorf("within %s: %v after %s and %d tries", limit, err, took, tries)
			}
			cancel()
		}
	})
}
