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

// Causes with which the context of an attempt is cancelled.
var (
	errTaken    = errors.New("the run was taken over by another worker")
	errLease    = errors.New("the lease expired while the database was unreachable")
	errDraining = errors.New("the worker is stopping")
)

const (
	heartbeatEvery = 10 * time.Second // between two heartbeats for a run
	heartbeatParts = 10               // statements in that time for many runs
	heartbeatFew   = 256              // up to this number of runs get their heartbeats in one statement
	heartbeatLate  = heartbeatEvery * 3 / 2
	lockedRetry    = 250 * time.Millisecond // between two heartbeats for runs that another transaction has locked
)

// heldRun is one run that this worker executes.
type heldRun struct {
	lease.Held
	cancel     context.CancelCauseFunc
	leaseUntil time.Time // on this process's monotonic clock; guarded by heldRuns.mu
	beat       time.Time // when the run was claimed or had its last heartbeat; guarded by heldRuns.mu
}

// heldRuns contains the runs that this worker executes. One heartbeat extends the leases of many
// runs.
type heldRuns struct {
	mu   sync.Mutex
	runs map[string]*heldRun
}

// add replaces an earlier attempt at the same run, which has lost its lease.
func (h *heldRuns) add(run *heldRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run.beat = time.Now()
	h.runs[run.RunID] = run
}

// remove removes a run, unless this worker has claimed it again since then.
func (h *heldRuns) remove(run *heldRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[run.RunID] == run {
		delete(h.runs, run.RunID)
	}
}

// has reports whether this attempt at the run, not a later one, is still in progress.
func (h *heldRuns) has(run *heldRun) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run.RunID] == run
}

// cancel cancels the attempt at a run if this worker executes it.
func (h *heldRuns) cancel(runID string, cause error) {
	h.mu.Lock()
	run := h.runs[runID]
	h.mu.Unlock()
	if run != nil {
		run.cancel(cause)
	}
}

// cancelAll cancels all attempts. It does not wait for them.
func (h *heldRuns) cancelAll(cause error) {
	for _, run := range h.all() {
		run.cancel(cause)
	}
}

// all returns the runs that are held at this moment, in any order.
func (h *heldRuns) all() []*heldRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.runs))
}

// due returns the runs for the next heartbeat. A few runs get theirs together. Extending thousands of
// leases in one statement would occupy a core for a tenth of a second and delay the runs of other
// organizations. Of many runs, each tick therefore takes a tenth, those with the oldest heartbeats.
func (h *heldRuns) due() (due []*heldRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, few := time.Now(), len(h.runs) <= heartbeatFew
	wait := heartbeatEvery
	if !few {
		wait /= 2 // runs that were claimed together are spread over the next ticks
	}
	for _, run := range h.runs {
		if now.Sub(run.beat) >= wait {
			due = append(due, run)
		}
	}

	switch tenth := (len(h.runs) + heartbeatParts - 1) / heartbeatParts; {
	case few && len(due) > 0:
		return slices.Collect(maps.Values(h.runs))
	case len(due) > tenth:
		slices.SortFunc(due, func(a, b *heldRun) int { return a.beat.Compare(b.beat) })
		for tenth < len(due) && now.Sub(due[tenth].beat) > heartbeatLate {
			tenth++ // heartbeats have failed, and these leases expire soon
		}
		due = due[:tenth]
	}
	return due
}

// count returns the number of attempts in progress, for a metric and at shutdown.
func (h *heldRuns) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.runs)
}

// extend records the renewed lease for watch.
func (h *heldRuns) extend(run *heldRun, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run.leaseUntil = until
}

// beaten records that runs had a heartbeat.
func (h *heldRuns) beaten(runs []*heldRun, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range runs {
		run.beat = at
	}
}

// watch cancels attempts whose lease has expired by the local clock. It makes no database call,
// because a heartbeat may be blocked on a database that does not respond.
func (h *heldRuns) watch(ctx context.Context) {
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

// beat extends the leases of runs in one statement. It returns the runs that another transaction
// has locked, whose leases could not be extended. It immediately cancels runs that this worker no
// longer holds. If the database is unreachable or a run stays locked, the attempt is cancelled only
// when the lease expires, because a restart of PostgreSQL must not interrupt every model call.
func (r *Runner) beat(ctx context.Context, runs []*heldRun) (locked []*heldRun) {
	if len(runs) == 0 {
		return nil
	}

	// The database's lease begins after this moment, so the local estimate expires first.
	asked := time.Now()
	ids := make([]lease.Held, len(runs))
	for i, run := range runs {
		ids[i] = run.Held
	}

	// A heartbeat that takes longer would delay the next one.
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()

	leases, err := r.runs.Extend(ctx, ids)
	if err != nil {
		r.log.Warn().Err(err).Int("runs", len(runs)).Msg("heartbeat failed, retrying")
		return nil
	}

	// Locked and lost runs count as beaten as well: the former are retried separately, and the
	// latter end.
	r.held.beaten(runs, asked)

	for _, run := range runs {
		switch {
		case leases.Extended[run.RunID]:
			r.held.extend(run, asked.Add(lease.Lease))
		case leases.Locked[run.RunID]:
			locked = append(locked, run)
		default:
			run.cancel(errTaken)
		}
	}
	return locked
}

// heartbeat extends each lease every heartbeatEvery until ctx ends. It extends those of locked runs
// every lockedRetry.
func (r *Runner) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery / heartbeatParts)
	defer ticker.Stop()
	var locked []*heldRun
	for {
		// Retry locked runs soon: waiting for the next tick could let their leases expire.
		var again <-chan time.Time
		if len(locked) > 0 {
			again = time.After(lockedRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// A locked run that is due anyway gets one heartbeat, not two.
			due := r.held.due()
			locked = slices.DeleteFunc(locked, func(run *heldRun) bool { return !r.held.has(run) || slices.Contains(due, run) })
			locked = r.beat(ctx, append(due, locked...))
		case <-again:
			locked = r.beat(ctx, slices.DeleteFunc(locked, func(run *heldRun) bool { return !r.held.has(run) }))
		}
	}
}
