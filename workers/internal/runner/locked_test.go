package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm/scripted"
)

// lockingEnv is an environment in which another transaction has locked some runs for a time.
type lockingEnv struct {
	*testEnv
	locked map[string]time.Time // time at which the lock of each run ends
	lost   string               // id of a run that another worker has taken over

	tries int
	alone []int // number of results in each call of Finish
	fails error
}

func (l *lockingEnv) Extend(_ context.Context, held []lease.Held) (executiondb.Leases, error) {
	defer l.lock()()
	out := executiondb.Leases{Extended: map[string]bool{}, Locked: map[string]bool{}}
	for _, h := range held {
		if time.Now().Before(l.locked[h.RunID]) {
			out.Locked[h.RunID] = true
			continue
		}
		out.Extended[h.RunID] = h.RunID != l.lost
	}
	return out, nil
}

func (l *lockingEnv) Finish(ctx context.Context, outcomes []executiondb.Outcome) (executiondb.Finished, error) {
	unlock := l.lock()
	l.tries++
	l.alone = append(l.alone, len(outcomes))
	fails := l.fails
	l.fails = nil
	unlock()
	if fails != nil {
		return executiondb.Finished{}, fails
	}
	failed := map[string]error{}
	free := slices.DeleteFunc(slices.Clone(outcomes), func(e executiondb.Outcome) bool {
		if !time.Now().Before(l.locked[e.Run.ID]) {
			return false
		}
		failed[e.Run.ID] = pg.ErrLocked
		return true
	})
	out, err := l.testEnv.Finish(ctx, free)
	out.Failed = failed
	return out, err
}

func (l *lockingEnv) Journal(context.Context, lease.Held, int, []byte) (bool, error) {
	defer l.lock()()
	if l.tries++; l.tries < 4 {
		return false, pg.ErrLocked
	}
	return true, nil
}

// The heartbeat extends the leases of runs, and is retried for a locked run. The heartbeat ends the
// attempt at a run that another worker has taken over.
func TestHeartbeatsOfRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lockingEnv{testEnv: &testEnv{}, locked: map[string]time.Time{"run_1": time.Now().Add(11 * time.Second)}, lost: "run_3"}
		r := &Runner{runs: l, held: newHeldRuns(), log: zerolog.Nop()}
		ctx, stop := context.WithCancel(t.Context())
		causes := map[string]func() error{}
		for _, id := range []string{"run_1", "run_2", "run_3"} {
			attempt, cancel := context.WithCancelCause(ctx)
			r.held.Add(lease.Held{RunID: id}, time.Now(), cancel)
			causes[id] = func() error { return context.Cause(attempt) }
		}
		go r.heartbeat(ctx)
		go r.held.Watch(ctx)
		<-time.After(2 * lease.Lease)
		synctest.Wait()
		if causes["run_1"]() != nil || causes["run_2"]() != nil || !errors.Is(causes["run_3"](), errTaken) {
			t.Errorf("attempts ended with %v, %v and %v", causes["run_1"](), causes["run_2"](), causes["run_3"]())
		}
		stop()
		synctest.Wait()
	})
}

// The result of a locked run is saved as soon as the lock is released. The results of other runs do
// not wait for the lock.
func TestALockedResultIsSavedOnceItsRunIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
		l := &lockingEnv{testEnv: s, locked: map[string]time.Time{"run_1": time.Now().Add(5 * time.Second)}}
		r := &Runner{runs: l, bus: s, freeSlots: &freeSlots{wake: make(chan struct{}, 1)}}
		newOutcome := func(id string) endedRun { return endedRun{Outcome: executiondb.Outcome{Run: domain.Run{ID: id}}} }
		out, err := r.saveAll(t.Context(), []endedRun{newOutcome("run_1"), newOutcome("run_2")})
		if err != nil || !errors.Is(out[0].failed, pg.ErrLocked) || out[0].ok || !out[1].ok || len(s.done) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		a := &attempt{log: zerolog.Nop()}
		began := time.Now()
		r.persist(t.Context(), a, "saving result", func(ctx context.Context) error {
			out, err := r.saveAll(ctx, []endedRun{newOutcome("run_1")})
			if err != nil {
				return err
			}
			return out[0].failed
		})
		if took := time.Since(began); took < 5*time.Second || took > 5*time.Second+maxLocked || l.tries > 20 {
			t.Errorf("saved after %s, in %d tries", took, l.tries)
		}
		if len(s.done) != 2 || !strings.HasPrefix(s.done[1], "run_1 ") {
			t.Errorf("published results %q", s.done)
		}
	})
}

// If a batch of results cannot be saved, each result is saved separately.
func TestAResultThatFailedIsSavedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
		l := &lockingEnv{testEnv: s, fails: errors.New("statement timeout")}
		r := newRunnerOn(t, s, l)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { r.finishes.Run(ctx) })
		var saved sync.WaitGroup
		for _, id := range []string{"run_1", "run_2", "run_3"} {
			a := claimedAttempt(id)
			a.events = r.newEventWriter(a, func() {})
			saved.Go(func() { r.finish(ctx, a, agentloop.Output{Text: "ok"}, domain.RunCompleted, nil) })
		}
		saved.Wait()
		stop()
		all.Wait()
		if len(s.done) != 3 {
			t.Errorf("published results %q", s.done)
		}
		failed := l.alone[0]
		for i := range failed {
			if l.alone[len(l.alone)-1-i] != 1 {
				t.Errorf("sizes of batches after a failed batch: %v", l.alone)
			}
		}
	})
}

// A step is recorded even if the run is locked at first.
func TestALockedStepIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lockingEnv{testEnv: &testEnv{}}
		j := journal{l, claimedAttempt("run_1")}
		if err := j.Record(t.Context(), agentloop.Step{Seq: 1}); err != nil || l.tries != 4 {
			t.Errorf("%d tries, %v", l.tries, err)
		}
	})
}

// claimsLocked is an environment in which a run is locked and cannot be claimed at first.
type claimsLocked struct {
	grantingEnv
	locked int
}

func (c *claimsLocked) Claim(ctx context.Context, runIDs []string) ([]executiondb.Claim, error) {
	if c.locked > 0 {
		c.locked--
		return []executiondb.Claim{{Locked: true}}, nil
	}
	return c.grantingEnv.Claim(ctx, runIDs)
}

// The claim of a locked run is repeated until the lock is released.
func TestTheClaimOfALockedRunIsRepeated(t *testing.T) {
	t.Parallel()
	s := &testEnv{model: scripted.New("stage/first", scripted.Call{Deltas: []string{"ok"}})}
	c := &claimsLocked{grantingEnv: grantingEnv{testEnv: s, claim: claimedAttempt("run_1").claim, look: func() {}}, locked: 2}
	r := newRunnerOn(t, s, c)
	ctx, stop := context.WithCancel(t.Context())
	var groups sync.WaitGroup
	for _, run := range []func(context.Context){r.claims.Run, r.finishes.Run, r.requeues.Run, r.notes.Run, r.events.Run} {
		groups.Go(func() { run(ctx) })
	}
	r.execute(ctx, &bus.JobMessage{RunID: "run_1", ReplyTo: "inbox"})
	stop()
	groups.Wait()
	if len(s.done) != 1 {
		t.Errorf("published results %q", s.done)
	}
}
