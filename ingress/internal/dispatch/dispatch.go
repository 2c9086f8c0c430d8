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
	maxBatch      = 256  // maximum number of rows that one statement accepts, reads or cancels
	acceptWaiting = 8192 // maximum number of requests that wait to be accepted; further requests are refused
	acceptTimeout = 10 * time.Second

	// backlogShares is the number of organizations that together can fill the backlog. With a
	// quarter of the backlog, one organization can queue a large batch, and cannot fill the backlog
	// alone or together with two others.
	backlogShares = 4
)

// Config has the limits for accepting runs.
type Config struct {
	BacklogMax int             // maximum number of queued runs of all organizations; further runs are refused
	Tracer     *tracing.Tracer // nil: no traces
}

// Dispatcher accepts runs and waits for their results. Its methods may be called concurrently while
// its Run method runs.
type Dispatcher struct {
	cfg   Config
	store *store.Store
	bus   *bus.Bus
	log   zerolog.Logger

	inbox   string                                                                  // bus subject of the workers' replies to this process
	lookups *batch.Group[rundb.KeyRef, *rundb.StoredRun]                            // reads runs by their idempotency keys
	accepts *batch.Group[tracing.Of[queuedb.NewRun], queuedb.Accepted]              // inserts runs
	arrived *batch.Group[tracing.Of[queuedb.NewDelivery], queuedb.AcceptedDelivery] // inserts deliveries to hooks and their runs
	// Requests that wait for runs.
	waiting *waiters
	// Limits on queued runs.
	backlog *backlog
	// Lanes with runs that were not dispatched.
	left *leftovers
	// Limits on queued runs of hooks.
	byHooks *hookRuns
	// Idempotency keys that were recently used.
	seen    *seen
	drained chan struct{} // closed by Drain
	drains  atomic.Bool   // whether Drain was called
}

// New returns a dispatcher. It works while its Run method runs. It sends no message and reads no
// row.
func New(cfg Config, st *store.Store, b *bus.Bus, log zerolog.Logger) *Dispatcher {
	d := &Dispatcher{cfg: cfg, store: st, bus: b, log: log, inbox: b.NewInbox(), drained: make(chan struct{}), seen: newSeen()}
	d.waiting, d.byHooks = newWaiters(st, b, log), newHookRuns(st.Queue.HookRuns, cfg.BacklogMax)

	d.backlog = newBacklog(st.Queue.Backlog, cfg.BacklogMax, max(1, cfg.BacklogMax/backlogShares))
	d.left = newLeftovers()

	// A batch of lookups starts immediately with the requests that wait, because waiting for
	// further requests would only delay them.
	d.lookups = batch.New(maxBatch, acceptWaiting, d.lookup).Eager()

	// The bytes of a batch of runs or deliveries are also limited: one input can have several
	// megabytes, and all inputs of a batch are in one statement and in memory until the commit. Two
	// batches of deliveries run in parallel, so that the database executes one while this process
	// handles the results of the other.
	d.accepts = batch.New(maxBatch, acceptWaiting, tracing.Batched(cfg.Tracer, "run.accept batch", d.accept)).
		Sized(executiondb.MaxBatchBytes, func(r tracing.Of[queuedb.NewRun]) int { return r.Request.Size() })
	d.arrived = batch.New(maxBatch, deliverWaiting, tracing.Batched(cfg.Tracer, "hook.deliver batch", d.deliver)).Parallel(2).
		Sized(executiondb.MaxBatchBytes, func(r tracing.Of[queuedb.NewDelivery]) int { return r.Request.Size() })
	return d
}

// Run runs the background work of the dispatcher until ctx ends. Requests whose runs are being
// accepted at that time still get their results. Run is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	// Subscribe before any run is accepted, because workers send the replies for accepted runs to
	// this inbox.
	stop, err := d.bus.OnReplies(d.inbox, d.waiting.reply)
	if err != nil {
		return fmt.Errorf("receiving replies: %w", err)
	}
	defer stop()

	// After ctx has ended, the batch groups still finish their current batches. Wait for them, so
	// that every request gets the result of its commit.
	var loops sync.WaitGroup
	for _, run := range []func(context.Context){d.lookups.Run, d.accepts.Run, d.arrived.Run, d.waiting.poll, d.dispatchLeftovers} {
		loops.Go(func() { run(ctx) })
	}

	d.backlog.watch(ctx)
	loops.Wait()
	return nil
}

// Drain ends all waits. The waiting requests then respond with the current state of their runs.
// Runs are accepted as before.
func (d *Dispatcher) Drain() {
	// Drain may be called more than once, but the channel can be closed only once.
	if d.drains.CompareAndSwap(false, true) {
		close(d.drained)
	}
}

// ByKey returns the run of an organization whose idempotency key has this hash, or nil if there is
// none. After a run has expired, its key can be used for another run. The lookups of concurrent
// requests share a statement.
func (d *Dispatcher) ByKey(ctx context.Context, org string, hash []byte) (*rundb.StoredRun, error) {
	run, err := d.lookups.Do(ctx, rundb.KeyRef{OrganizationID: org, Hash: hash})
	if run != nil {
		d.seen.add(hash)
	}
	return run, refusal(err)
}

// Seen reports whether this process has recently accepted or found a run whose idempotency key has
// this hash. The result is only a hint, because the run may have expired, and other processes
// accept runs, too.
func (d *Dispatcher) Seen(hash []byte) bool { return d.seen.has(hash) }

// lookup reads the runs of a batch of keys. The batch group d.lookups calls it.
func (d *Dispatcher) lookup(ctx context.Context, keys []rundb.KeyRef) ([]*rundb.StoredRun, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	return d.store.Runs.RunsByKey(ctx, keys)
}

// Submitted is the run of a request: a run accepted for it, or an existing run. The large result of
// an existing run may be missing and must then be read separately; see the field Deferred.
type Submitted struct {
	Run      rundb.StoredRun
	Existing bool  // whether the run existed before this request
	waits    bool  // whether the run is new and waits for a slot or for an earlier run of its session
	wait     *wait // the wait for the run's result; nil: none has begun
}

// Submit accepts a run and publishes its job. If a run with the same idempotency key exists, Submit
// returns that run instead. The caller must pass the result to Release. The error is overloaded if
// too many runs are queued or too many requests wait.
func (d *Dispatcher) Submit(ctx context.Context, run queuedb.NewRun) (*Submitted, error) {
	// Check the backlog first, because that needs no query.
	if err := d.backlog.admit(run.OrganizationID); err != nil {
		return nil, err
	}

	run.ReplyTo = d.inbox
	// Begin the wait before the run exists, because the worker's reply may arrive before Submit
	// returns.
	w := d.waiting.add(rundb.RunRef{OrganizationID: run.OrganizationID, RunID: run.ID}, "")
	ctx, span := tracing.Child(ctx, tracing.Producer, "run.accept", "")
	defer span.End()
	if span.On() {
		run.Traceparent = tracing.Traceparent(ctx)
		span.Str("parley.run.id", run.ID)
	}

	// The run is accepted even if the client disconnects. Wait for the result in any case, because
	// the caller may have to cancel a run that no client reads.
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

	// Remember the key, because a run with it exists now. If a client repeats the request, the key
	// is looked up first, and the client is not charged.
	d.seen.add(run.KeyHash)
	if accepted.Existing {
		d.waiting.remove(w)
		return &Submitted{Run: accepted.Run, Existing: true}, nil
	}
	return &Submitted{Run: accepted.Run, wait: w, waits: accepted.Job == nil}, nil
}

// accept inserts a batch of runs and publishes the jobs of those that may start. ctx is not the
// context of a request, because a run must be accepted even if its client disconnects. The results
// have the order of rows.
func (d *Dispatcher) accept(ctx context.Context, rows []queuedb.NewRun) ([]queuedb.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	failpoint.Here(failpoint.AcceptBefore)
	accepted, err := d.store.Queue.Accept(ctx, rows)
	if err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.AcceptAfter)

	// Publish the jobs only now, after the commit. Earlier, a worker that receives a job would find
	// no run.
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}

		// A run that waits for a slot has no job. Neither does a delayed run (Hold is set), which
		// waits for its time.
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

// Release ends the wait for a run's result, if one has begun. It does not change the run.
func (d *Dispatcher) Release(s *Submitted) {
	if s.wait != nil {
		d.waiting.remove(s.wait)
	}
}

// Result is the outcome of a wait. If Ended is set, the run has finished, and Run describes it. Run
// may contain only the result, only the size of the result, or only the fact that the run was
// erased.
type Result struct {
	Ended bool
	Run   rundb.StoredRun
}

// Await waits until the run finishes or waits for another decision by a person, or until the limit
// has passed. If the run has not finished, the field Ended of the Result is false. Requests that
// wait for the same run share the Result.
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

	// The worker's reply goes only to the process that accepted the run. For a run that this
	// request has not accepted, subscribe to the notice that the run is done.
	if s.wait == nil {
		d.attach(ctx, s, limit)
	}

	// The wait ends when the result arrives, the time limit passes, the dispatcher drains, or the
	// client disconnects. The end of the wait does not end the run.
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

// ended returns the Result for a run that had already finished when it was read.
func (s *Submitted) ended() *Result { return &Result{Ended: true, Run: s.Run} }

// stoppedWaiting returns the error of a wait whose context, ctx, has ended.
func stoppedWaiting(ctx context.Context) error { return fmt.Errorf("waiting for run: %w", ctx.Err()) }

// attach begins a wait for a run that another request has accepted. limit bounds the time for the
// subscription.
func (d *Dispatcher) attach(ctx context.Context, s *Submitted, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.wait = d.waiting.attach(ctx, rundb.RunRef{OrganizationID: s.Run.OrganizationID, RunID: s.Run.Run.ID}, waitsFor(s.Run.Run))
}

// Attach returns a Submitted for a run read from the store. The run may be in any state.
func Attach(run rundb.StoredRun) *Submitted { return &Submitted{Run: run, Existing: true} }

// Cancel cancels an unfinished run, and notifies its worker and the requests that wait for it. It
// does not change a finished run. If principal is "", the run may belong to any principal.
func (d *Dispatcher) Cancel(ctx context.Context, org, principal, runID string) (rundb.StoredRun, error) {
	run, ended, err := d.store.Executions.Cancel(ctx, org, principal, runID)
	d.notifyFinished(ctx, ended)
	return run, refusal(err)
}

// CancelQueued cancels all queued runs of an agent.
func (d *Dispatcher) CancelQueued(ctx context.Context, org, agentID string) error {
	// Each statement cancels at most maxBatch runs, so that it locks only a few rows. It skips runs
	// that another transaction has locked.
	for {
		ended, err := d.store.Executions.CancelQueued(ctx, org, agentID, maxBatch)
		if err != nil {
			return refusal(err)
		}
		d.notifyFinished(ctx, ended)
		if len(ended) == 0 {
			return nil
		}
	}
}

// notifyFinished publishes that runs have finished, and dispatches waiting runs into the freed
// slots. Messages are published also if ctx has ended.
func (d *Dispatcher) notifyFinished(ctx context.Context, ended []executiondb.Ended) {
	// Add up the freed slots of each lane, so that one query dispatches runs into all of them.
	freed := queuedb.FreedSlots{}
	for _, e := range ended {
		// If a worker is executing the run, this message stops the worker.
		d.bus.Cancelled(e.RunID)
		// The process that accepted the run gets the result in its inbox. Other processes get a
		// notice and read the row.
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

// dispatchNext dispatches waiting runs into freed slots and publishes their jobs. An error is only
// logged, because the sweeper dispatches the runs later.
func (d *Dispatcher) dispatchNext(ctx context.Context, freed queuedb.FreedSlots) {
	next, err := d.store.Queue.DispatchNext(ctx, freed)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch queued runs; the sweeper will retry")
	}
	d.bus.PublishJobs(next...)
}

// lockedTime is how long a request tries to get rows that another transaction has locked. Most
// locks last a few milliseconds. The pause before a retry begins with lockedFirst and grows up to
// maxLocked.
const (
	lockedTime  = 2 * time.Second
	lockedFirst = 5 * time.Millisecond
	maxLocked   = 320 * time.Millisecond
)

// whileLocked calls the function do. If do fails because another transaction has locked the
// request's rows, whileLocked calls do again after a pause. During the pause, the other requests of
// the batch do not wait for these rows. The attempts end after lockedTime or with ctx, and the last
// error is returned.
func whileLocked[A any](ctx context.Context, do func() (A, error)) (A, error) {
	end := time.Now().Add(lockedTime)
	for wait := lockedFirst; ; wait = min(2*wait, maxLocked) {
		answer, err := do()

		// If there is no time for another attempt, return the error at once; the client may retry.
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

// refusal converts an error that means that the queue is full, the service is stopping or the
// database is unreachable to an API error. It returns any other error unchanged.
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

// overloaded returns the API error for a full backlog. The client may retry. The cause appears only
// in the log.
func overloaded(cause error) error {
	e := apierr.Wrap(apierr.Overloaded, cause, "too many runs are queued; try again shortly")
	e.RetryAfter = overloadedWait
	return e
}

// overloadedWait is the Retry-After in responses that refuse a run. The queued runs are counted
// again within this time.
const overloadedWait = 2 * time.Second
