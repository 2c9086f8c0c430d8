// Package batch groups concurrent calls into shared ones: while one batch is being carried
// out the next gathers. A caller that is alone waits for nobody. Where calls come together,
// those that are about to come are waited for, no longer than the batch before took: many
// callers share one round trip and one commit, and what a batch costs whatever its size is
// paid less often.
package batch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxPatience bounds the wait for further calls, however long batches take.
const maxPatience = 5 * time.Millisecond

// ErrFull is returned when more calls wait than the group may hold.
var ErrFull = errors.New("too many calls are waiting")

// ErrStopped is returned for calls after the group's end.
var ErrStopped = errors.New("the batch group is closed")

// Group gathers calls with a request of type Q and carries them out together, each answered by an A.
type Group[Q, A any] struct {
	do    func(context.Context, []Q) ([]A, error)
	max   int
	calls chan call[Q, A]
	ended chan struct{}

	sizeMax int // of a batch's requests together
	size    func(Q) int
	over    *call[Q, A] // did not fit in the batch before

	eager bool          // nobody is waited for
	last  int           // calls of the batch before,
	took  time.Duration // and how long it took
}

type call[Q, A any] struct {
	req    Q
	answer chan result[A]
}

type result[A any] struct {
	val A
	err error
}

// New makes a group whose do is handed 1 to most requests and answers them in the same order; an
// error of do is every caller's. At most waiting further calls are held; one more gets ErrFull.
// do runs under the context given to Run, never under a caller's.
func New[Q, A any](limit, waiting int, do func(context.Context, []Q) ([]A, error)) *Group[Q, A] {
	return &Group[Q, A]{do: do, max: limit, calls: make(chan call[Q, A], waiting), ended: make(chan struct{})}
}

// Eager has the group wait for no company, before it runs: for reads, which have no commit to share.
func (g *Group[Q, A]) Eager() *Group[Q, A] {
	g.eager = true
	return g
}

// Sized bounds what the requests of a batch come to, before the group runs. A request that is larger than the bound goes alone.
func (g *Group[Q, A]) Sized(limit int, size func(Q) int) *Group[Q, A] {
	g.sizeMax, g.size = limit, size
	return g
}

// Run carries out batches, one after the other, until ctx ends and the calls gathered by then are answered.
func (g *Group[Q, A]) Run(ctx context.Context) {
	defer close(g.ended)
	work := context.WithoutCancel(ctx)
	for {
		first, ok := g.next(ctx)
		if !ok {
			return
		}
		g.flush(work, first)
	}
}

// next waits for the first call of a batch. It reports false once ctx has ended and no call is left.
func (g *Group[Q, A]) next(ctx context.Context) (first call[Q, A], ok bool) {
	if g.over != nil {
		first, g.over = *g.over, nil
		return first, true
	}
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

// gather collects a batch: the first call, those that wait behind it and, where calls come together, those that come within the time
// that the batch before took, each at most half of that time behind the one before.
func (g *Group[Q, A]) gather(first call[Q, A]) []call[Q, A] {
	calls := append(make([]call[Q, A], 0, min(g.max, max(g.last, len(g.calls)+1))), first)
	size := g.sizeFor(first)
	take := func(c call[Q, A]) {
		if size += g.sizeFor(c); g.size != nil && size > g.sizeMax {
			g.over = &c
			return
		}
		calls = append(calls, c)
	}
	if !g.eager && (g.last > 1 || len(g.calls) > 0) {
		patience := min(g.took, maxPatience)
		end := time.Now().Add(patience)
		timer := time.NewTimer(patience / 2)
		defer timer.Stop()
		for waits := true; waits && g.over == nil && len(calls) < g.max; {
			select {
			case c := <-g.calls:
				take(c)
				timer.Reset(min(patience/2, time.Until(end)))
			case <-timer.C:
				waits = false
			}
		}
	}
	for g.over == nil && len(calls) < g.max && len(g.calls) > 0 {
		take(<-g.calls)
	}
	return calls
}

func (g *Group[Q, A]) sizeFor(c call[Q, A]) int {
	if g.size == nil {
		return 0
	}
	return g.size(c.req)
}

// flush carries out one batch.
func (g *Group[Q, A]) flush(ctx context.Context, first call[Q, A]) {
	calls := g.gather(first)
	reqs := make([]Q, len(calls))
	for i := range calls {
		reqs[i] = calls[i].req
	}
	began := time.Now()
	answers, err := g.do(ctx, reqs)
	g.last, g.took = len(calls), time.Since(began)
	if err == nil && len(answers) != len(calls) {
		err = fmt.Errorf("batch of %d received %d answers", len(calls), len(answers))
	}
	for i, c := range calls {
		if err != nil {
			c.answer <- result[A]{err: err}
			continue
		}
		c.answer <- result[A]{val: answers[i]}
	}
}

// Do hands in one request and waits for its answer. When ctx ends first its error is returned,
// and the request is carried out all the same.
func (g *Group[Q, A]) Do(ctx context.Context, req Q) (A, error) {
	var none A
	answer := make(chan result[A], 1)
	select {
	case g.calls <- call[Q, A]{req, answer}:
	case <-g.ended:
		return none, ErrStopped
	default:
		return none, ErrFull
	}
	select {
	case r := <-answer:
		return r.val, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for batch: %w", ctx.Err())
	case <-g.ended:
		select { // the last batch may have answered just before the end
		case r := <-answer:
			return r.val, r.err
		default:
			return none, ErrStopped
		}
	}
}
