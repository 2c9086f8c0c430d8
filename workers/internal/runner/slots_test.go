package runner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/store/lease"
	"parley/workers/internal/leased"
)

// announcingEnv records the numbers of slots that are announced.
type announcingEnv struct {
	*testEnv
	announced []int
}

func (a *announcingEnv) AnnounceSlots(_ context.Context, _ string, n int, _ time.Duration) error {
	defer a.lock()()
	a.announced = append(a.announced, n)
	return nil
}

// During a shutdown, a worker announces as many slots as it has remaining attempts, and finally
// none.
func TestADrainingWorkerKeepsTheSlotsOfItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := &announcingEnv{testEnv: &testEnv{}}
		r := &Runner{
			cfg: Config{Concurrency: 50}, queue: env, held: newHeldRuns(), database: newGate(), log: zerolog.Nop(),
		}
		first := r.held.Add(lease.Held{RunID: "run_1"}, time.Now(), func(error) {})
		r.held.Add(lease.Held{RunID: "run_2"}, time.Now(), func(error) {})

		ctx, stop := context.WithCancel(t.Context())
		work, end := context.WithCancel(t.Context())
		go r.announce(ctx, work)
		<-time.After(leased.HeartbeatEvery / 2)
		stop()
		<-time.After(time.Second / 2)
		r.held.Remove(first)
		<-time.After(time.Second)
		end()
		synctest.Wait()

		defer env.lock()()
		if want := []int{50, 2, 1, 0}; !slices.Equal(env.announced, want) {
			t.Errorf("announced slots = %v, want %v", env.announced, want)
		}
	})
}
