package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/queuedb"
)

// newLateEnv returns an environment with late acceptance. Each job message is passed to worker.
func newLateEnv(t *testing.T, worker func(d *testEnv, m *bus.JobMessage, run domain.LateRun)) *testEnv {
	t.Helper()
	d := newTestEnv(t)
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	must(t, err)
	d.late.box = box
	var fetching sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); fetching.Wait() })
	lane := d.bus.Lane(domain.LaneAutomation)
	fetching.Go(func() {
		for ctx.Err() == nil {
			_ = lane.Fetch(ctx, 16, time.Second, func(m *bus.JobMessage) {
				m.Ack()
				if m.Late == nil {
					return
				}
				raw, err := box.OpenBytes(m.Late, []byte(m.RunID))
				if err != nil || bytes.Contains(m.Late, raw[:16]) {
					t.Errorf("the run in the message: %v", err)
				}
				var run domain.LateRun
				if err := json.Unmarshal(raw, &run); err != nil {
					t.Error(err)
				}
				if worker != nil {
					worker(d, m, run)
				}
			})
		}
	})
	return d
}

// lateRun returns a run that may finish before it is accepted. An empty key means none.
func (d *testEnv) lateRun(key string) queuedb.NewRun {
	run := d.run("")
	run.OwnSession, run.Late = true, true
	if key != "" {
		run.IdempotencyKey, run.KeyHash = key, contract.Hash(d.org, key)
		run.Dedupe = contract.Dedupe(d.org, contract.EndpointAutomation, key)
	}
	return run
}

// rows returns the number of runs.
func (d *testEnv) rows() (n int) {
	d.Helper()
	must(d.T, d.raw.QueryRowContext(d.Context(), `SELECT count(*) FROM runs`).Scan(&n))
	return n
}

func TestALateRunIsAnsweredByItsWorker(t *testing.T) {
	t.Parallel()
	d := newLateEnv(t, func(d *testEnv, m *bus.JobMessage, run domain.LateRun) {
		d.bus.Reply(m.RunID, m.ReplyTo, []byte(`{"input":`+string(run.Input)+`}`))
	})
	s, err := d.Submit(t.Context(), d.lateRun("k"))
	must(t, err)
	defer d.Release(s)
	r, err := d.Await(t.Context(), s, 10*time.Second)
	must(t, err)
	body, err := r.Run.Result()
	must(t, err)
	if want := `{"input":{"message":"hi"}}`; !r.Ended || s.Existing || string(body) != want {
		t.Errorf("ended = %t, body = %s, want %s", r.Ended, body, want)
	}
	if n := d.rows(); n != 0 {
		t.Errorf("the ingress accepted %d runs", n)
	}
}

// A run that no worker stores is accepted in the ordinary way.
func TestALateRunWithoutAnAnswerIsAccepted(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"no reply": "", "declined": contract.Declined, "declined agent": contract.DeclinedAgent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			tried := 0
			d := newLateEnv(t, func(d *testEnv, m *bus.JobMessage, _ domain.LateRun) {
				mu.Lock()
				tried++
				mu.Unlock()
				if reply != "" {
					d.bus.Reply(m.RunID, m.ReplyTo, []byte(reply))
				}
			})
			for range 2 {
				s, err := d.Submit(t.Context(), d.lateRun(""))
				must(t, err)
				d.Release(s)
			}
			if n := d.rows(); n != 2 {
				t.Errorf("%d runs are accepted, want 2", n)
			}
			want := 2
			if reply == contract.DeclinedAgent {
				want = 1 // the agent is remembered
			}
			mu.Lock()
			defer mu.Unlock()
			if tried != want {
				t.Errorf("workers got %d runs, want %d", tried, want)
			}
		})
	}
}

// Requests with one key get one run, even if they use two ingresses at the same time.
func TestLateRunsWithOneKeyAreOneRun(t *testing.T) {
	t.Parallel()
	d := newLateEnv(t, nil)
	other := New(Config{BacklogMax: 400, Late: d.late.box}, d.store, d.bus, zerolog.Nop())
	var loop sync.WaitGroup
	loop.Go(func() { _ = other.Run(t.Context()) })
	t.Cleanup(loop.Wait)
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for n := range 8 {
		all.Go(func() {
			by := d.Dispatcher
			if n%2 == 0 {
				by = other
			}
			s, err := by.Submit(t.Context(), d.lateRun("k"))
			if err != nil {
				t.Error(err)
				return
			}
			defer by.Release(s)
			mu.Lock()
			defer mu.Unlock()
			ids[s.Run.Run.ID] = true
		})
	}
	all.Wait()
	if n := d.rows(); n != 1 || len(ids) != 1 {
		t.Errorf("%d runs, and callers got %d", n, len(ids))
	}
}

// If no worker replies, most requests do not wait for one.
func TestSilentWorkersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	d := newLateEnv(t, nil)
	run := d.lateRun("")
	for range maxSilent {
		if !d.late.admits(&run) {
			t.Fatal("late acceptance is off")
		}
		d.late.heard(false)
	}
	if d.late.admits(&run) {
		t.Error("late acceptance is tried after silence")
	}
	d.late.heard(true)
	if !d.late.admits(&run) {
		t.Error("late acceptance is off after a reply")
	}
}
