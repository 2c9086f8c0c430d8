package runner

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"parley/shared/store/sessiondb"
	"parley/workers/internal/llm/scripted"
)

// largeHistories is a store of sessions with histories of the maximum size. If org_1 reads a
// history, the call waits until the channel release is closed.
type largeHistories struct {
	release chan struct{}

	mu      sync.Mutex
	reading map[string]int // number of current reads by organization
	maximum int            // maximum number of simultaneous reads of org_1
}

func (h *largeHistories) ShortHistory(context.Context, string, int64, int, int) ([]sessiondb.Turn, int, error) {
	return nil, 8 << 20, nil
}

func (h *largeHistories) History(_ context.Context, org string, _ int64, _, _ int) ([]sessiondb.Turn, error) {
	h.mu.Lock()
	h.reading[org]++
	h.maximum = max(h.maximum, h.reading["org_1"])
	h.mu.Unlock()
	if org == "org_1" {
		<-h.release
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reading[org]--
	return []sessiondb.Turn{{Seq: 1, Message: "s", Answer: "t"}}, nil
}

// Runs of the same organization read large histories one after the other. A run of another
// organization does not wait for them.
func TestLargeHistoriesWaitForRoom(t *testing.T) {
	t.Parallel()
	const runs = 12
	synctest.Test(t, func(t *testing.T) {
		model := scripted.Forever("stage/first", scripted.Call{Deltas: []string{"ok"}})
		s := &testEnv{model: model}
		r := newRunnerOn(t, s, s)
		h := &largeHistories{release: make(chan struct{}), reading: map[string]int{}}
		r.sessions = h
		ctx, stop := context.WithCancel(t.Context())
		var groups, attempts sync.WaitGroup
		groups.Go(func() { r.finishes.Run(ctx) })
		groups.Go(func() { r.requeues.Run(ctx) })
		groups.Go(func() { r.notes.Run(ctx) })
		groups.Go(func() { r.events.Run(ctx) })
		start := func(org, runID string) {
			a := claimedAttempt(runID)
			a.claim.OrganizationID, a.claim.Seq = org, 2
			attempts.Go(func() { r.executeClaimed(ctx, a) })
		}
		for n := range runs {
			start("org_1", "run_"+strconv.Itoa(n))
		}
		synctest.Wait()
		start("org_2", "run_victim")
		synctest.Wait()
		if len(model.Requests()) != 1 {
			t.Errorf("%d runs have called the model; want only the other organization's", len(model.Requests()))
		}
		close(h.release)
		attempts.Wait()
		stop()
		groups.Wait()
		if h.maximum != 1 || len(s.outcomes) != runs+1 {
			t.Errorf("%d large histories of an organization were read at a time; %d runs have ended", h.maximum, len(s.outcomes))
		}
		if r.inputs.used != 0 || len(r.inputs.byOrg) != 0 {
			t.Errorf("%d bytes stay used", r.inputs.used)
		}
	})
}

// If a part of a history does not fit into the model's context, the memory of this part is
// released, so that the next run can start.
func TestUnusedMemoryIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInputs()
		first, err := in.enter(t.Context(), "a", inputShare)
		if err != nil {
			t.Fatal(err)
		}
		entered := make(chan *inputTurn, 1)
		go func() {
			if turn, err := in.enter(t.Context(), "a", inputMiB); err == nil {
				entered <- turn
			}
		}()
		synctest.Wait()
		if len(entered) != 0 {
			t.Fatal("an organization has more than its share")
		}
		in.shrink(first, inputMiB)
		in.shrink(first, 2*inputMiB)
		second := <-entered
		if in.used != 2*inputMiB {
			t.Errorf("%d bytes are used", in.used)
		}
		in.leave(first)
		in.leave(second)
		if in.used != 0 || len(in.byOrg) != 0 {
			t.Errorf("%d bytes stay used", in.used)
		}
	})
}
