package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/shared/store/lease"
)

// Why an attempt was cancelled.
var (
	errTaken    = errors.New("the run was taken over by another worker")
	errLease    = errors.New("the lease expired while the database was unreachable")
	errDraining = errors.New("the worker is stopping")
)

const (
	heartbeatEvery = 10 * time.Second
	lockedAgain    = 250 * time.Millisecond // between heartbeats of runs that another transaction has locked
)

// holding is one run in this worker's hands.
type holding struct {
	lease.Held
	cancel     context.CancelCauseFunc
	inProgress func()
	leaseUntil time.Time // by this process's monotonic clock; guarded by held's lock
}

// held is what this worker holds, kept alive by heartbeats that all runs share.
type held struct {
	mu   sync.Mutex
	runs map[string]*holding
}

func (h *held) add(run *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[run.RunID] = run
}

// remove forgets a run, unless a later claim of it by this worker has taken the place.
func (h *held) remove(run *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[run.RunID] == run {
		delete(h.runs, run.RunID)
	}
}

func (h *held) has(run *holding) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run.RunID] == run
}

// cancel ends the attempt at a run, if it is held here.
func (h *held) cancel(runID string, cause error) {
	h.mu.Lock()
	run := h.runs[runID]
	h.mu.Unlock()
	if run != nil {
		run.cancel(cause)
	}
}

func (h *held) cancelAll(cause error) {
	for _, run := range h.all() {
		run.cancel(cause)
	}
}

func (h *held) all() []*holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.runs))
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.runs)
}

func (h *held) extend(run *holding, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run.leaseUntil = until
}

// watch cancels attempts whose lease is over by the local clock. It asks nobody: a heartbeat may be waiting
// for a database that does not answer.
func (h *held) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.mu.Lock()
			for _, run := range h.runs {
				if now.After(run.leaseUntil) {
					run.cancel(errLease)
				}
			}
			h.mu.Unlock()
		}
	}
}

// beat renews leases in one statement, and returns the runs whose leases could not be renewed because another transaction has locked
// them. A run that is no longer held is cancelled at once. If the database cannot be asked, or the run stays locked, it is cancelled only
// once its lease is over: a restart of PostgreSQL must not end every model call.
func (r *Runner) beat(ctx context.Context, runs []*holding) (locked []*holding) {
	if len(runs) == 0 {
		return nil
	}
	asked := time.Now()
	ids := make([]lease.Held, len(runs))
	for i, run := range runs {
		ids[i] = run.Held
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	leases, err := r.runs.Extend(ctx, ids)
	if err != nil {
		r.log.Warn().Err(err).Int("runs", len(runs)).Msg("heartbeat failed, retrying")
		return nil
	}
	for _, run := range runs {
		switch {
		case leases.Extended[run.RunID]:
			r.held.extend(run, asked.Add(lease.Lease))
			run.inProgress()
		case leases.Locked[run.RunID]:
			locked = append(locked, run)
		default:
			run.cancel(errTaken)
		}
	}
	return locked
}

// heartbeat renews all leases every heartbeatEvery, and those of locked runs more often, until ctx ends.
func (r *Runner) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	var locked []*holding
	for {
		var again <-chan time.Time
		if len(locked) > 0 {
			again = time.After(lockedAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			locked = r.beat(ctx, r.held.all())
		case <-again:
			locked = r.beat(ctx, slices.DeleteFunc(locked, func(run *holding) bool { return !r.held.has(run) }))
		}
	}
}
