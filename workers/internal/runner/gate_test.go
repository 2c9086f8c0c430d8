package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/executiondb"
)

// unreachableEnv is a database that answers neither claims nor announcements while away is true.
type unreachableEnv struct {
	grantingEnv
	away bool
}

func (u *unreachableEnv) answers() bool { defer u.lock()(); return !u.away }

func (u *unreachableEnv) setAway(away bool) { defer u.lock()(); u.away = away }

func (u *unreachableEnv) Claim(ctx context.Context, runIDs []string) ([]executiondb.Claim, error) {
	if u.answers() {
		return u.grantingEnv.Claim(ctx, runIDs)
	}
	<-time.After(15 * time.Second) // time limit of a connection
	return nil, errors.New("i/o timeout")
}

func (u *unreachableEnv) AnnounceSlots(ctx context.Context, _ string, _ int, _ time.Duration) error {
	if u.answers() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// isOpen reports whether the gate is open, so that a worker fetches job messages.
func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// A worker that cannot reach the database fetches no job messages, because it would acknowledge
// them without being able to claim their runs.
func TestAWorkerWithoutADatabaseFetchesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &testEnv{}
		env := &unreachableEnv{grantingEnv: grantingEnv{testEnv: s, claim: claimedAttempt("run_1").claim, look: func() {}}}
		r := newRunnerOn(t, s, env)
		r.queue, r.log = env, zerolog.Nop()
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.announce(ctx, ctx)
		go r.claims.Run(ctx)

		synctest.Wait()
		if !r.database.isOpen() {
			t.Fatal("the worker fetches no jobs although the database answers")
		}

		env.setAway(true)
		go func() { _, _, _ = r.claim(ctx, "run_1") }()
		<-time.After(slowClaim + time.Millisecond)
		if r.database.isOpen() {
			t.Error("the worker fetches jobs although a claim has no answer")
		}
		fetching := make(chan struct{})
		go func() { r.database.wait(ctx); close(fetching) }()
		<-time.After(time.Minute)
		select {
		case <-fetching:
			t.Error("the worker fetches jobs although the database does not answer")
		default:
		}

		env.setAway(false)
		select {
		case <-fetching:
		case <-time.After(announceTime + 2*time.Second):
			t.Error("the worker fetches no jobs although the database answers again")
		}
	})
}
