package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/batch"
	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store"
	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
	"parley/shared/store/rundb"
	"parley/shared/telemetry/tracing"
)

const (
	batchMax      = 256  // maximum number of rows of one acceptance, lookup or cancellation
	acceptWaiting = 8192 // maximum number of requests that wait to be accepted; further requests are refused
	acceptTimeout = 10 * time.Second
)

// Config has the limits for accepting runs.
type Config struct {
	BacklogMax    int             // maximum number of queued runs of all organizations; further runs are refused
	OrgBacklogMax int             // maximum number of queued runs of one organization; 0: a quarter of BacklogMax
	Tracer        *tracing.Tracer // nil: no traces
}

// Dispatcher accepts runs and waits for their results. It is safe for concurrent use while Run
// runs.
type Dispatcher struct {
	cfg   Config
	store *store.Store
	bus   *bus.Bus
	log   zerolog.Logger

	inbox   string                                                                  // subject of the workers' replies to this process
	lookups *batch.Group[rundb.KeyRef, *rundb.StoredRun]                            // reads runs by their idempotency keys
	accepts *batch.Group[tracing.Of[queuedb.NewRun], queuedb.Accepted]              // inserts runs
	arrived *batch.Group[tracing.Of[queuedb.NewDelivery], queuedb.AcceptedDelivery] // inserts deliveries to hooks and their runs
	waiting *waiters
	backlog *backlog
	left    *leftovers
	byHooks *hookRuns
	seen    *seen
	drained chan struct{} // closed by Drain
	drains  atomic.Bool   // whether Drain was called
}

// New returns a dispatcher. It accepts runs once Run has started.
func New(cfg Config, st *store.Store, b *bus.Bus, log zerolog.Logger) *Dispatcher {
	d := &Dispatcher{cfg: cfg, store: st, bus: b, log: log, inbox: b.NewInbox(), drained: make(chan struct{}), seen: newSeen()}
	d.waiting, d.byHooks = newWaiters(st, b, log), newHookRuns(st.Queue.HookRuns, cfg.BacklogMax)

	// By default, four organizations with full queues are needed to fill the backlog.
	share := cfg.OrgBacklogMax
	if share == 0 {
		share = max(1, cfg.BacklogMax/4)
	}
	d.backlog, d.left = newBacklog(st.Queue.Backlog, cfg.BacklogMax, share), newLeftovers()

	// A lookup does not wait for a batch to fill, because it would delay its request.
	d.lookups = batch.New(batchMax, acceptWaiting, d.lookup).Eager()

	// Batches of runs and of deliveries are also limited in bytes, because their inputs are kept in
	// memory and in one statement until the commit, and one input can have some megabytes. Two
	// batches of deliveries run in parallel: the database executes one while this process handles
	// the results of the other.
	d.accepts = batch.New(batchMax, acceptWaiting, tracing.Batched(cfg.Tracer, "run.accept batch", d.accept)).
		Sized(executiondb.MaxBatchBytes, func(r tracing.Of[queuedb.NewRun]) int { return r.Request.Size() })
	d.arrived = batch.New(batchMax, deliverWaiting, tracing.Batched(cfg.Tracer, "hook.deliver batch", d.deliver)).Parallel(2).
		Sized(executiondb.MaxBatchBytes, func(r tracing.Of[queuedb.NewDelivery]) int { return r.Request.Size() })
	return d
}

// Run serves until ctx ends. Requests that are being accepted at that time still receive their
// result.
func (d *Dispatcher) Run(ctx context.Context) error {
	// The subscription must exist before a run is accepted, because the run names this inbox for
	// its reply.
	stop, err := d.bus.OnReplies(d.inbox, d.waiting.reply)
	if err != nil {
		return fmt.Errorf("receiving replies: %w", err)
	}
	defer stop()

	// The batch groups finish their current batch after ctx has ended. Run waits for them, so that
	// no request loses the result of a commit.
	var loops sync.WaitGroup
	for _, run := range []func(context.Context){d.lookups.Run, d.accepts.Run, d.arrived.Run, d.waiting.poll, d.dispatchLeftovers} {
		loops.Go(func() { run(ctx) })
	}

	d.backlog.watch(ctx)
	loops.Wait()
	return nil
}

// Drain ends all waits. Their requests are answered with the current state of their runs.
func (d *Dispatcher) Drain() {
	// Drain may be called more than once, but the channel can be closed only once.
	if d.drains.CompareAndSwap(false, true) {
		close(d.drained)
	}
}

// ByKey returns the run of an organization whose idempotency key has this hash, or nil. The keys of
// expired runs can be used again.
func (d *Dispatcher) ByKey(ctx context.Context, org string, hash []byte) (*rundb.StoredRun, error) {
	run, err := d.lookups.Do(ctx, rundb.KeyRef{OrganizationID: org, Hash: hash})
	if run != nil {
		d.seen.add(hash)
	}
	return run, refusal(err)
}

// Seen reports whether this process has recently found a run whose idempotency key has this hash.
// The result is only a hint: the key may be free again, and keys accepted by other processes are
// unknown.
func (d *Dispatcher) Seen(hash []byte) bool { return d.seen.has(hash) }

// lookup reads a batch of runs by their keys. The group lookups calls it.
func (d *Dispatcher) lookup(ctx context.Context, keys []rundb.KeyRef) ([]*rundb.StoredRun, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	return d.store.Runs.RunsByKey(ctx, keys)
}

// Submitted is an accepted run, or the existing run with the same idempotency key. The result of an
// existing run may be Deferred, which means that it must be read separately.
type Submitted struct {
	Run      rundb.StoredRun
	Existing bool  // whether the run was found by its idempotency key instead of being accepted for this request
	waits    bool  // whether the run was accepted for this request and waits for an earlier run of its session or for a slot
	wait     *wait // the wait for the run's result; nil: none has begun
}

// Submit accepts a run and publishes its job. The caller must call Release with the result.
func (d *Dispatcher) Submit(ctx context.Context, run queuedb.NewRun) (*Submitted, error) {
	// The check of the backlog comes first, because it needs no query.
	if err := d.backlog.admit(run.OrganizationID); err != nil {
		return nil, err
	}

	run.ReplyTo = d.inbox
	// The wait begins before the run exists, because the reply may arrive before this call returns.
	w := d.waiting.add(rundb.RunRef{OrganizationID: run.OrganizationID, RunID: run.ID}, "")
	ctx, span := tracing.Child(ctx, tracing.Producer, "run.accept", "")
	defer span.End()
	if span.On() {
		run.Traceparent = tracing.Traceparent(ctx)
		span.Str("parley.run.id", run.ID)
	}

	// The batch accepts the run even if the client disconnects. Submit still waits for the result,
	// because a run that no client reads may have to be cancelled.
	accepted, err := whileLocked(ctx, func() (queuedb.Accepted, error) {
		accepted, err := d.accepts.Do(context.WithoutCancel(ctx), tracing.For(ctx, run))
		if err == nil {
			err = accepted.Err
		}
		return accepted, err
	})
	if err != nil {
		d.waiting.remove(w)
		span.Fail("refused")
		return nil, refusal(err)
	}

	// The key is in use now, by this request's run or by an earlier one. A retry with this key will
	// find the run with one lookup and will not be charged.
	d.seen.add(run.KeyHash)
	if accepted.Existing {
		d.waiting.remove(w)
		return &Submitted{Run: accepted.Run, Existing: true}, nil
	}
	return &Submitted{Run: accepted.Run, wait: w, waits: accepted.Job == nil}, nil
}

// accept inserts a batch of runs and publishes the jobs of those that may start. It does not use a
// request's context, because a client that disconnects must not cancel its run.
func (d *Dispatcher) accept(ctx context.Context, rows []queuedb.NewRun) ([]queuedb.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	failpoint.Here(failpoint.AcceptBefore)
	accepted, err := d.store.Queue.Accept(ctx, rows)
	if err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.AcceptAfter)

	// The jobs are published after the commit. Before the commit, a worker that received a job
	// would find no run to claim.
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}

		// A run without a job waits for a slot, and a delayed run waits for its time.
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Hold == 0 {
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.PublishJobs(next...)
	return accepted, nil
}

// Release ends the wait for a submitted run.
func (d *Dispatcher) Release(s *Submitted) {
	if s.wait != nil {
		d.waiting.remove(s.wait)
	}
}

// Result is the outcome of a wait. If Ended is set, Run is the finished run. Run may be incomplete:
// it may contain only the result, only the size of the result, or only the fact that the run was
// erased.
type Result struct {
	Ended bool
	Run   rundb.StoredRun
}

// Await waits until the run finishes, the run waits for a new decision by a person, or the limit
// has passed. In the last case it returns a Result without Ended, and no error. The result is
// shared with other requests that wait for the run.
//
// Thousands of requests wait here. Await returns a pointer, so that the stack of a waiting request
// does not contain a Result, which is large.
func (d *Dispatcher) Await(ctx context.Context, s *Submitted, limit time.Duration) (*Result, error) {
	if s.Run.Ended() {
		return s.ended(), nil
	}
	if limit <= 0 {
		return &Result{}, nil
	}

	// Only the process that accepted the run receives the worker's reply. Other processes subscribe
	// to the done notice and poll the row.
	if s.wait == nil {
		d.attach(ctx, s, limit)
	}

	// A wait ends with the run's result, after the limit, at shutdown, or when the client leaves.
	// The run itself continues in any case.
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-s.wait.result:
		return r, nil
	case <-timer.C:
		return &Result{}, nil
	case <-d.drained:
		return &Result{}, nil
	case <-ctx.Done():
		return nil, stoppedWaiting(ctx)
	}
}

// ended returns the result of a run that had already finished when it was read.
func (s *Submitted) ended() *Result { return &Result{Ended: true, Run: s.Run} }

// stoppedWaiting returns the error of a wait whose context has ended.
func stoppedWaiting(ctx context.Context) error { return fmt.Errorf("waiting for run: %w", ctx.Err()) }

// attach begins a wait for a run that another request has accepted.
func (d *Dispatcher) attach(ctx context.Context, s *Submitted, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.wait = d.waiting.attach(ctx, rundb.RunRef{OrganizationID: s.Run.OrganizationID, RunID: s.Run.Run.ID}, waitsFor(s.Run.Run))
}

// Attach returns a Submitted for a run read from the store.
func Attach(run rundb.StoredRun) *Submitted { return &Submitted{Run: run, Existing: true} }

// Cancel cancels an unfinished run, and notifies its worker and the requests that wait for it. It
// does not change a finished run.
func (d *Dispatcher) Cancel(ctx context.Context, org, principal, runID string) (rundb.StoredRun, error) {
	run, ended, err := d.store.Executions.Cancel(ctx, org, principal, runID)
	d.notifyFinished(ctx, ended)
	return run, refusal(err)
}

// CancelQueued cancels all queued runs of an agent.
func (d *Dispatcher) CancelQueued(ctx context.Context, org, agentID string) error {
	// Each statement cancels at most batchMax runs, so that it locks few rows at a time. Runs that
	// another transaction has locked are skipped.
	for {
		ended, err := d.store.Executions.CancelQueued(ctx, org, agentID, batchMax)
		if err != nil {
			return refusal(err)
		}
		d.notifyFinished(ctx, ended)
		if len(ended) == 0 {
			return nil
		}
	}
}

// notifyFinished publishes that runs have finished, and dispatches waiting runs to the freed slots.
func (d *Dispatcher) notifyFinished(ctx context.Context, ended []executiondb.Ended) {
	// The freed slots are added up by lane, so that one dispatch fills the slots of several runs.
	freed := queuedb.FreedSlots{}
	for _, e := range ended {
		// The worker that executes the run, if any, cancels its attempt.
		d.bus.Cancelled(e.RunID)
		// The process that accepted the run receives the result itself. Other processes receive a
		// notice and then read the row.
		d.bus.Done(e.RunID, e.ReplyTo, e.Result)
		d.bus.Changed(domain.ChangedRuns, e.OrganizationID)
		// A run that was never dispatched did not occupy a slot.
		slots := 0
		if e.Dispatched {
			slots = 1
		}
		if slots+e.Followers > 0 {
			freed.Add(queuedb.Lane{OrganizationID: e.OrganizationID, Lane: e.Lane},
				queuedb.Freed{Slots: slots, Waiting: true, Followers: e.Followers})
		}
	}
	d.dispatchNext(ctx, freed)
}

// dispatchNext dispatches waiting runs into freed slots and publishes their jobs.
func (d *Dispatcher) dispatchNext(ctx context.Context, freed queuedb.FreedSlots) {
	next, err := d.store.Queue.DispatchNext(ctx, freed)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
	}
	d.bus.PublishJobs(next...)
}

// A request waits up to lockedTime for rows that another transaction has locked. Most locks last a
// few milliseconds.
const (
	lockedTime  = 2 * time.Second
	lockedFirst = 5 * time.Millisecond
	maxLocked   = 320 * time.Millisecond
)

// whileLocked repeats do while another transaction has locked the request's rows. Other requests of
// the same batch do not have to wait for these rows.
func whileLocked[A any](ctx context.Context, do func() (A, error)) (A, error) {
	end := time.Now().Add(lockedTime)
	for wait := lockedFirst; ; wait = min(2*wait, maxLocked) {
		answer, err := do()

		// If the next attempt would begin after lockedTime, the caller receives the retryable error
		// immediately.
		if !pg.IsLocked(err) || time.Now().Add(wait).After(end) {
			return answer, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return answer, err
		}
	}
}

// refusal returns the coded error for a service whose queue is full or whose database is
// unreachable.
func refusal(err error) error {
	if errors.Is(err, batch.ErrFull) {
		return overloaded(err)
	}
	if errors.Is(err, batch.ErrStopped) {
		e := apierr.Wrap(apierr.Unavailable, err, "the service is stopping; try again")
		e.RetryAfter = time.Second
		return e
	}
	return pg.Unavailable(err)
}

// overloaded returns the retryable error for a full backlog. The error contains the cause for the
// log.
func overloaded(cause error) error {
	e := apierr.Wrap(apierr.Overloaded, cause, "too many runs are queued; try again shortly")
	e.RetryAfter = overloadedWait
	return e
}

// overloadedWait is the Retry-After of refused runs. The backlog is counted again within this time.
const overloadedWait = 2 * time.Second
