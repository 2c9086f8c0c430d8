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
	batchMax      = 256
	acceptWaiting = 8192 // requests that may wait to be accepted before new ones are refused
	acceptTimeout = 10 * time.Second
)

// Config are the limits of accepting runs.
type Config struct {
	Window        int             // dispatched runs of one lane of an organization at a time
	BacklogMax    int             // queued runs of all organizations before new ones are refused
	OrgBacklogMax int             // queued runs of one organization before its new ones are refused; 0: a quarter of BacklogMax
	Tracer        *tracing.Tracer // nil: acceptance is not traced
}

// Dispatcher accepts runs and awaits their results. It is safe for concurrent use once Run was started.
type Dispatcher struct {
	cfg     Config
	store   *store.Store
	bus     *bus.Bus
	log     zerolog.Logger
	inbox   string
	lookups *batch.Group[rundb.KeyRef, *rundb.StoredRun]
	accepts *batch.Group[tracing.Of[queuedb.NewRun], queuedb.Accepted]
	arrived *batch.Group[tracing.Of[queuedb.NewDelivery], queuedb.AcceptedDelivery]
	waiting *waiters
	backlog *backlog
	left    *leftovers
	byHooks *hookRuns
	seen    *seen
	drained chan struct{}
	drains  atomic.Bool
}

// New makes a dispatcher; nothing is accepted before Run.
func New(cfg Config, st *store.Store, b *bus.Bus, log zerolog.Logger) *Dispatcher {
	d := &Dispatcher{cfg: cfg, store: st, bus: b, log: log, inbox: b.NewInbox(), drained: make(chan struct{}), seen: newSeen()}
	d.waiting, d.byHooks = newWaiters(st, b, log), newHookRuns(st.Queue.HookRuns, cfg.BacklogMax)
	share := cfg.OrgBacklogMax
	if share == 0 {
		share = max(1, cfg.BacklogMax/4)
	}
	d.backlog, d.left = newBacklog(st.Queue.Backlog, cfg.BacklogMax, share), newLeftovers()
	d.lookups = batch.New(batchMax, acceptWaiting, d.lookup).Eager()
	d.accepts = batch.New(batchMax, acceptWaiting, tracing.Batched(cfg.Tracer, "run.accept batch", d.accept)).
		Sized(executiondb.MaxBatchBytes, func(r tracing.Of[queuedb.NewRun]) int { return r.Request.Size() })
	d.arrived = batch.New(batchMax, deliverWaiting, tracing.Batched(cfg.Tracer, "hook.deliver batch", d.deliver))
	return d
}

// Run serves until ctx ends; requests that are being accepted by then are answered.
func (d *Dispatcher) Run(ctx context.Context) error {
	stop, err := d.bus.OnReplies(d.inbox, d.waiting.reply)
	if err != nil {
		return fmt.Errorf("receiving replies: %w", err)
	}
	defer stop()
	var loops sync.WaitGroup
	for _, run := range []func(context.Context){d.lookups.Run, d.accepts.Run, d.arrived.Run, d.waiting.poll, d.dispatchLeftovers} {
		loops.Go(func() { run(ctx) })
	}
	d.backlog.watch(ctx)
	loops.Wait()
	return nil
}

// Drain ends all waits: their requests are answered with the runs as they stand.
func (d *Dispatcher) Drain() {
	if d.drains.CompareAndSwap(false, true) {
		close(d.drained)
	}
}

// ByKey gives the live run of an organization that holds an idempotency hash, or nil.
func (d *Dispatcher) ByKey(ctx context.Context, org string, hash []byte) (*rundb.StoredRun, error) {
	run, err := d.lookups.Do(ctx, rundb.KeyRef{OrganizationID: org, Hash: hash})
	if run != nil {
		d.seen.add(hash)
	}
	return run, refusal(err)
}

// Seen reports whether an idempotency hash was held when this process last had to do with it, not too long ago. That is a hint:
// it may be free by now, and of what others have accepted nothing is known.
func (d *Dispatcher) Seen(hash []byte) bool { return d.seen.has(hash) }

func (d *Dispatcher) lookup(ctx context.Context, keys []rundb.KeyRef) ([]*rundb.StoredRun, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	return d.store.Runs.RunsByKey(ctx, keys)
}

// Submitted is a run that was accepted, or the one that held its key already. The result of such a run may be Deferred.
type Submitted struct {
	Run      rundb.StoredRun
	Existing bool
	wait     *wait
}

// Submit accepts a run and rings for it. Release must be called on what it returns.
func (d *Dispatcher) Submit(ctx context.Context, run queuedb.NewRun) (*Submitted, error) {
	if err := d.backlog.admit(run.OrganizationID); err != nil {
		return nil, err
	}
	run.ReplyTo = d.inbox
	// Before the run exists: its reply may come before this call returns.
	w := d.waiting.add(rundb.RunRef{OrganizationID: run.OrganizationID, RunID: run.ID}, "")
	ctx, span := tracing.Child(ctx, tracing.Producer, "run.accept", "")
	defer span.End()
	if span.On() {
		run.Traceparent = tracing.Traceparent(ctx)
		span.Str("parley.run.id", run.ID)
	}
	accepted, err := whileLocked(ctx, func() (queuedb.Accepted, error) {
		accepted, err := d.accepts.Do(ctx, tracing.For(ctx, run))
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
	d.seen.add(run.KeyHash)
	if accepted.Existing {
		d.waiting.remove(w)
		return &Submitted{Run: accepted.Run, Existing: true}, nil
	}
	return &Submitted{Run: accepted.Run, wait: w}, nil
}

// accept inserts a batch and rings for what may start. It runs outside of any request: a client that
// goes away ends nothing.
func (d *Dispatcher) accept(ctx context.Context, rows []queuedb.NewRun) ([]queuedb.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	failpoint.Here(failpoint.AcceptBefore)
	accepted, err := d.store.Queue.Accept(ctx, rows, d.cfg.Window)
	if err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.AcceptAfter)
	var next []domain.Job
	for i, a := range accepted {
		if a.Err != nil || a.Existing {
			continue
		}
		if a.Job != nil {
			next = append(next, *a.Job)
		} else if rows[i].Hold == 0 {
			d.left.add(queuedb.Lane{OrganizationID: rows[i].OrganizationID, Lane: rows[i].Lane})
		}
		d.bus.Changed(domain.ChangedRuns, rows[i].OrganizationID)
	}
	d.bus.Ring(next...)
	return accepted, nil
}

// Release forgets a submitted run's waiter.
func (d *Dispatcher) Release(s *Submitted) {
	if s.wait != nil {
		d.waiting.remove(s.wait)
	}
}

// Result is how a wait ended. If the run has ended, Run is that run, of which no more may be known than its result, its size or that it was
// erased.
type Result struct {
	Ended bool
	Run   rundb.StoredRun
}

// Await waits up to limit for the run's end, or until it waits for a person itself, other than it did when it was
// read; a result that has not Ended is no error.
func (d *Dispatcher) Await(ctx context.Context, s *Submitted, limit time.Duration) (Result, error) {
	if s.Run.Ended() {
		return Result{Ended: true, Run: s.Run}, nil
	}
	if limit <= 0 {
		return Result{}, nil
	}
	if s.wait == nil {
		d.attach(ctx, s, limit)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-s.wait.result:
		return r, nil
	case <-timer.C:
		return Result{}, nil
	case <-d.drained:
		return Result{}, nil
	case <-ctx.Done():
		return Result{}, fmt.Errorf("waiting for run: %w", ctx.Err())
	}
}

// attach makes a wait for a run that somebody else has accepted.
func (d *Dispatcher) attach(ctx context.Context, s *Submitted, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.wait = d.waiting.attach(ctx, rundb.RunRef{OrganizationID: s.Run.OrganizationID, RunID: s.Run.Run.ID}, waitsFor(s.Run.Run))
}

// Attach is a Submitted for a run that was read from the store.
func Attach(run rundb.StoredRun) *Submitted { return &Submitted{Run: run, Existing: true} }

// Cancel ends an open run and tells its worker and whoever waits. A run that has ended is left as it is.
func (d *Dispatcher) Cancel(ctx context.Context, org, principal, runID string) (rundb.StoredRun, error) {
	run, ended, err := d.store.Executions.Cancel(ctx, org, principal, runID)
	d.tell(ctx, ended)
	return run, refusal(err)
}

// CancelQueued ends all queued runs of an agent.
func (d *Dispatcher) CancelQueued(ctx context.Context, org, agentID string) error {
	for {
		ended, err := d.store.Executions.CancelQueued(ctx, org, agentID, batchMax)
		if err != nil {
			return refusal(err)
		}
		d.tell(ctx, ended)
		if len(ended) == 0 {
			return nil
		}
	}
}

// tell says that runs have ended, and gives the places they left to others.
func (d *Dispatcher) tell(ctx context.Context, ended []executiondb.Ended) {
	places := map[queuedb.Lane]int{}
	for _, e := range ended {
		d.bus.Cancelled(e.RunID)
		d.bus.Done(e.RunID, e.ReplyTo, e.Result)
		d.bus.Changed(domain.ChangedRuns, e.OrganizationID)
		if e.Dispatched {
			places[queuedb.Lane{OrganizationID: e.OrganizationID, Lane: e.Lane}]++
		}
	}
	d.handOver(ctx, places)
}

// handOver dispatches waiting runs of lanes, as many as there are free slots, and rings for them.
func (d *Dispatcher) handOver(ctx context.Context, places map[queuedb.Lane]int) {
	next, err := d.store.Queue.HandOver(ctx, places, d.cfg.Window)
	if err != nil {
		d.log.Warn().Err(err).Msg("cannot dispatch waiting runs; the sweeper will")
	}
	d.bus.Ring(next...)
}

// How long a request waits for what another transaction has locked, and how often it looks meanwhile. Most locks are held for some
// milliseconds.
const (
	lockedTime  = 2 * time.Second
	lockedFirst = 5 * time.Millisecond
	maxLocked   = 320 * time.Millisecond
)

// whileLocked repeats a request as long as another transaction has locked what it needs. Other requests of its batches do not wait for it.
func whileLocked[A any](ctx context.Context, do func() (A, error)) (A, error) {
	end := time.Now().Add(lockedTime)
	for wait := lockedFirst; ; wait = min(2*wait, maxLocked) {
		answer, err := do()
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

// refusal turns the errors of a full or unreachable service into coded ones.
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

func overloaded(cause error) error {
	e := apierr.Wrap(apierr.Overloaded, cause, "too many runs are waiting; try again shortly")
	e.RetryAfter = overloadedWait
	return e
}

const overloadedWait = 2 * time.Second
