// Package batch combines concurrent calls into batches. While a batch is executed, the next batch
// collects calls. A single caller does not wait. When several calls arrive, the group waits briefly
// for more calls, but not longer than the previous batch took. Many callers then share one round
// trip and one commit.
//
// The stores and the ingress use it for statements that many requests execute at the same time.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// maxPatience is the maximum time for which a batch waits for further calls, even if the previous
// batch took longer.
const maxPatience = 5 * time.Millisecond

// ErrFull means that too many calls are waiting in the group.
var ErrFull = errors.New("too many calls are waiting")

// ErrStopped means that the group has stopped.
var ErrStopped = errors.New("the batch group is closed")

// Group collects calls with a request of type Q and executes them in batches. Each call gets a
// result of type A. A Group is safe for concurrent use after Run has started.
type Group[Q, A any] struct {
	do    func(context.Context, []Q) ([]A, error)
	max   int             // maximum number of requests of a batch
	calls chan call[Q, A] // queue of calls that do not belong to a batch yet
	ended chan struct{}   // closed when Run returns

	maxSize  int // maximum total size of the requests of a batch
	size     func(Q) int
	overflow *call[Q, A] // a call that did not fit into the previous batch

	eager bool // do not wait for further calls
	lanes int  // maximum number of batches that are executed at the same time

	collecting chan struct{} // a semaphore: holds a value while a batch is collected; guards the field overflow
	wanted     atomic.Int64  // number of queued calls for which await waits; 0: it does not wait
	arrived    chan struct{} // gets a value when at least the wanted calls are queued
	pending    atomic.Int64  // number of calls without a result
	concurrent atomic.Int64  // highest number of pending calls at the end of the latest batches
	last       atomic.Int64  // number of calls in the previous batch
	took       atomic.Int64  // duration of the previous batch in nanoseconds
}

// call is a request and the channel for its result. The channel has capacity 1, so sending never
// blocks, even if the caller has left.
type call[Q, A any] struct {
	req    Q
	answer chan result[A]
}

// result is the result of a call: a value or an error.
type result[A any] struct {
	val A
	err error
}

// New returns a group that executes batches of at most limit requests by calling the function do.
// This function must return the results in the order of the requests. If do returns an error, every
// caller in the batch gets that error. At most queueSize calls wait in the queue; if it is full, a
// call gets ErrFull. The context of do is derived from the context of Run, never from a caller's
// context.
func New[Q, A any](limit, queueSize int, do func(context.Context, []Q) ([]A, error)) *Group[Q, A] {
	return &Group[Q, A]{
		do: do, max: limit, lanes: 1, calls: make(chan call[Q, A], queueSize), ended: make(chan struct{}), collecting: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),
	}
}

// Parallel makes the group execute up to n batches at the same time. While this process handles the
// results of one batch, the database can execute another batch. Each batch waits for its share of
// the calls; see share. Call Parallel before Run.
func (g *Group[Q, A]) Parallel(n int) *Group[Q, A] {
	g.lanes = n
	return g
}

// Eager makes each batch start without waiting for further calls. It is meant for reads: they need
// no commit, so larger batches save less than for writes. Call it before Run.
func (g *Group[Q, A]) Eager() *Group[Q, A] {
	g.eager = true
	return g
}

// Sized limits the total size of the requests of a batch. A request above the limit is executed
// alone. Call it before Run.
func (g *Group[Q, A]) Sized(limit int, size func(Q) int) *Group[Q, A] {
	g.maxSize, g.size = limit, size
	return g
}

// Run executes batches until ctx ends. It returns after the calls that were already queued have
// their results.
func (g *Group[Q, A]) Run(ctx context.Context) {
	defer close(g.ended)
	work := context.WithoutCancel(ctx)
	var lanes sync.WaitGroup
	for range g.lanes {
		lanes.Go(func() {
			for calls := g.batch(ctx); calls != nil; calls = g.batch(ctx) {
				g.flush(work, calls)
			}
		})
	}
	lanes.Wait()
}

// batch returns the calls of the next batch, or nil once ctx has ended and the queue is empty.
func (g *Group[Q, A]) batch(ctx context.Context) []call[Q, A] {
	g.collecting <- struct{}{}
	defer func() { <-g.collecting }()

	// Only one goroutine at a time collects calls. The other goroutines execute their batches.
	first, ok := g.next(ctx)
	if !ok {
		return nil
	}
	return g.collect(first)
}

// next waits for the first call of a batch. It returns false once ctx has ended and the queue is
// empty.
func (g *Group[Q, A]) next(ctx context.Context) (first call[Q, A], ok bool) {
	// The call that did not fit into the previous batch comes first, before the calls in the queue.
	if g.overflow != nil {
		first, g.overflow = *g.overflow, nil
		return first, true
	}

	// After ctx has ended, Run still executes the queued calls, because their callers are waiting
	// for the results.
	select {
	case first = <-g.calls:
		return first, true
	case <-ctx.Done():
	}

	select {
	case first = <-g.calls:
		return first, true
	default:
		return first, false
	}
}

// collect returns the next batch: the first call, the calls already waiting and, if several calls
// arrive, the calls that arrive within the duration of the previous batch. collect stops earlier if
// the batch has its share of the callers, or if no call arrives for half of that duration.
func (g *Group[Q, A]) collect(first call[Q, A]) []call[Q, A] {
	share := g.share()
	calls := append(make([]call[Q, A], 0, min(g.max, max(int(g.last.Load()), len(g.calls)+1))), first)
	size := g.sizeFor(first)
	take := func(c call[Q, A]) {
		if size += g.sizeFor(c); g.size != nil && size > g.maxSize {
			g.overflow = &c
			return
		}
		calls = append(calls, c)
	}

	// Waiting for further calls saves time only if calls arrive concurrently. The result of the
	// method share shows whether they do.
	if !g.eager && share > len(g.calls)+1 {
		g.await(min(share, g.max) - 1)
	}

	for g.overflow == nil && len(calls) < g.max && len(g.calls) > 0 {
		take(<-g.calls)
	}

	return calls
}

// await waits until n calls are queued, at most for the duration of the previous batch. It returns
// earlier if no call arrives for half of that duration. The calls stay in the queue, so that not
// every call wakes the goroutine of the batch.
func (g *Group[Q, A]) await(n int) {
	select {
	case <-g.arrived: // the signal of an earlier batch, which stopped waiting before it came
	default:
	}
	g.wanted.Store(int64(n))
	defer g.wanted.Store(0)

	tick := time.NewTicker(max(min(time.Duration(g.took.Load()), maxPatience)/2, 1))
	defer tick.Stop()
	for range 2 {
		queued := len(g.calls)
		if queued >= n {
			return
		}
		select {
		case <-g.arrived:
			return
		case <-tick.C:
		}
		if len(g.calls) == queued {
			return
		}
	}
}

// share returns the number of calls for which a batch waits. Parallel batches divide the callers of
// the latest batches among themselves: a smaller batch would leave callers for one more batch, and
// a larger batch would leave the other batches without calls. A group without parallel batches
// waits as long as calls arrive.
func (g *Group[Q, A]) share() int {
	callers := int(max(g.concurrent.Load(), g.pending.Load()))
	if callers > 1 && g.lanes == 1 {
		return g.max
	}
	return (callers + g.lanes - 1) / g.lanes
}

// sizeFor returns the size of a call's request, or 0 if the group has no size limit.
func (g *Group[Q, A]) sizeFor(c call[Q, A]) int {
	if g.size == nil {
		return 0
	}
	return g.size(c.req)
}

// flush executes one batch and gives each call its result. It also records the duration of the batch
// and the number of callers, from which collect derives its waiting time.
func (g *Group[Q, A]) flush(ctx context.Context, calls []call[Q, A]) {
	reqs := make([]Q, len(calls))
	for i := range calls {
		reqs[i] = calls[i].req
	}

	began := time.Now()
	answers, err := g.do(ctx, reqs)
	g.took.Store(int64(time.Since(began)))
	g.last.Store(int64(len(calls)))
	if err == nil && len(answers) != len(calls) {
		err = fmt.Errorf("a batch of %d calls returned %d results", len(calls), len(answers))
	}

	// The number of callers decreases slowly, because not every batch ends while all callers wait.
	before := g.concurrent.Load()
	g.concurrent.Store(max(g.pending.Load(), before-(before+7)/8))
	g.pending.Add(-int64(len(calls)))

	// If do fails, each call of the batch gets the error.
	for i, c := range calls {
		if err != nil {
			c.answer <- result[A]{err: err}
			continue
		}
		c.answer <- result[A]{val: answers[i]}
	}
}

// Do submits a request and waits for its result. If ctx ends first, Do returns the error of ctx,
// but the request is still executed.
func (g *Group[Q, A]) Do(ctx context.Context, req Q) (A, error) {
	var none A
	answer := make(chan result[A], 1)

	// If the queue is full, Do returns an error and does not wait, so that callers notice the
	// overload.
	g.pending.Add(1)
	select {
	case g.calls <- call[Q, A]{req, answer}:
		if wanted := int(g.wanted.Load()); wanted > 0 && len(g.calls) >= wanted {
			select {
			case g.arrived <- struct{}{}:
			default: // another caller has sent it
			}
		}
	case <-g.ended:
		g.pending.Add(-1)
		return none, ErrStopped
	default:
		g.pending.Add(-1)
		return none, ErrFull
	}

	select {
	case r := <-answer:
		return r.val, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for batch: %w", ctx.Err())
	case <-g.ended:
		select { // Run may have sent this call's result just before it returned
		case r := <-answer:
			return r.val, r.err
		default:
			return none, ErrStopped
		}
	}
}
