package process

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"parley/workers/internal/speech"
)

// Slots limits the number of programs that run simultaneously. Calls wait for a free slot.
// Organizations take turns, and the calls of one organization are served in the order of their
// arrival. A call is rejected if too many calls of its organization, or of all organizations, are
// waiting. If there are several slots, long calls leave one of them free, so that short calls need
// not wait for long ones.
//
// Slots is safe for concurrent use. Each backend has its own Slots.
type Slots struct {
	// share and queue are limits on waiting calls; see NewSlots. maxLong is the maximum number of
	// long calls that run simultaneously.
	share, queue, maxLong int

	// mu protects the fields below.
	mu      sync.Mutex
	free    int
	long    int // number of slots that long calls use
	waiting int
	turns   []*orgQueue // queues of the organizations that have waiting calls; the first queue is served next
}

// Turn describes a call that needs a slot. Calls with the same Organization share a queue.
type Turn struct {
	Organization string
	Long         bool // true if the call takes much longer than most calls
}

// orgQueue contains the waiting calls of one organization.
type orgQueue struct {
	organization string
	waiting      []*waiter // never empty
}

// waiter is a call that waits for a slot.
type waiter struct {
	turn Turn
	has  chan struct{} // closed when the call has received a slot
}

// NewSlots returns Slots with n slots. share is the maximum number of waiting calls of each
// organization, and queue is the maximum number of all waiting calls. n must be positive.
func NewSlots(n, share, queue int) *Slots {
	return &Slots{free: n, share: share, queue: queue, maxLong: max(1, n-1)}
}

// Take waits for a slot. The caller must call release to free the slot; further calls of release
// have no effect. Take fails with speech.ErrOverloaded if too many calls are waiting, or with ctx's
// error when ctx ends.
func (p *Slots) Take(ctx context.Context, turn Turn) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for a slot: %w", ctx.Err())
	}
	w := &waiter{turn: turn, has: make(chan struct{})}
	if err := p.enter(w); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { p.release(turn) })
	select {
	case <-w.has:
		return release, nil
	case <-ctx.Done():
	}
	if !p.leave(w) { // the call received a slot at the moment when ctx ended
		release()
	}
	return nil, fmt.Errorf("waiting for a slot: %w", ctx.Err())
}

// enter adds w to a queue. If a slot is free that w may use, w receives it immediately. enter
// returns a speech.Error if too many calls of w's organization, or of all organizations, are
// waiting. A call that can start at once is never rejected.
func (p *Slots) enter(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.queueFor(w.turn.Organization)
	own := 0
	if at >= 0 {
		own = len(p.turns[at].waiting)
	}
	switch atOnce := p.waiting == 0 && p.fits(w.turn); {
	case atOnce:
	case own >= p.share:
		return refused(own)
	case p.waiting >= p.queue:
		return refused(p.waiting)
	}
	if at < 0 {
		at = len(p.turns)
		p.turns = append(p.turns, &orgQueue{organization: w.turn.Organization})
	}
	p.turns[at].waiting = append(p.turns[at].waiting, w)
	p.waiting++

	p.give()
	return nil
}

// refused returns the retryable error for a call that is rejected. waiting is the number of calls
// in the full queue.
func refused(waiting int) error {
	return &speech.Error{
		Code: speech.CodeOverloaded, Message: "Too many simultaneous speech requests; try again.", Retryable: true,
		Cause: fmt.Errorf("%d are waiting", waiting),
	}
}

// queueFor returns the index of an organization's queue, or -1. The caller must hold the lock.
func (p *Slots) queueFor(organization string) int {
	return slices.IndexFunc(p.turns, func(l *orgQueue) bool { return l.organization == organization })
}

// fits reports whether there is a free slot that t may use. The caller must hold the lock.
func (p *Slots) fits(t Turn) bool { return p.free > 0 && (!t.Long || p.long < p.maxLong) }

// give assigns free slots to waiting calls. give is called whenever a slot becomes free or a call
// arrives. The caller must hold the lock.
func (p *Slots) give() {
	for p.free > 0 {
		at, n := p.next()
		if at < 0 {
			return
		}
		l := p.turns[at]
		w := l.waiting[n]
		p.turns = slices.Delete(p.turns, at, at+1)
		if l.waiting = slices.Delete(l.waiting, n, n+1); len(l.waiting) > 0 {
			p.turns = append(p.turns, l) // this organization's next turn comes after those of all other organizations
		}
		p.waiting--

		p.free--
		if w.turn.Long {
			p.long++
		}
		close(w.has)
	}
}

// next returns the position of the next call: the index of its queue, and its index in that queue.
// A call that may not use the free slot is skipped and keeps its turn. next returns -1, -1 if no
// waiting call may use a free slot.
func (p *Slots) next() (at, n int) {
	for at, l := range p.turns {
		if n := slices.IndexFunc(l.waiting, func(w *waiter) bool { return p.fits(w.turn) }); n >= 0 {
			return at, n
		}
	}
	return -1, -1
}

// release frees a slot that a call with the given turn has used, and gives it to the next call.
func (p *Slots) release(turn Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if turn.Long {
		p.long--
	}
	p.give()
}

// leave removes w from its queue. It returns false if w already has a slot.
func (p *Slots) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.queueFor(w.turn.Organization)
	if at < 0 {
		return false
	}
	l := p.turns[at]
	n := slices.Index(l.waiting, w)
	if n < 0 {
		return false
	}

	p.waiting--
	if l.waiting = slices.Delete(l.waiting, n, n+1); len(l.waiting) == 0 {
		p.turns = slices.Delete(p.turns, at, at+1)
	}
	return true
}
