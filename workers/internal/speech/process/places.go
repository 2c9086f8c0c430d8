package process

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"parley/workers/internal/speech"
)

// Places is how many programs run at once. Who finds none free waits: organizations take turns, and each goes by the order of
// arrival. Who finds too many waiting, of its organization or of all, is refused. Where there is more than one place, one is
// not for what takes long: a short word never waits for it.
type Places struct {
	share, queue, maxLong int

	mu      sync.Mutex
	free    int
	long    int // places that are taken by what takes long
	waiting int
	turns   []*line // of organizations that wait; the first is next
}

// Turn is who takes a place, and for what.
type Turn struct {
	Organization string
	Long         bool // it takes much longer than others
}

// line is an organization's.
type line struct {
	organization string
	waiting      []*waiter // never none
}

// waiter is one who has no place yet.
type waiter struct {
	turn Turn
	has  chan struct{} // closed when it has one
}

// NewPlaces makes so many places, and lets so many of an organization, and so many in all, wait for one.
func NewPlaces(places, share, queue int) *Places {
	return &Places{free: places, share: share, queue: queue, maxLong: max(1, places-1)}
}

// Take takes a place, which release gives back. It fails with speech.ErrOverloaded, or as ctx ends.
func (p *Places) Take(ctx context.Context, turn Turn) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for a place: %w", ctx.Err())
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
	if !p.leave(w) { // it was given one in the same moment
		release()
	}
	return nil, fmt.Errorf("waiting for a place: %w", ctx.Err())
}

// enter lets w wait, unless it has a place at once.
func (p *Places) enter(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.lineFor(w.turn.Organization)
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
		p.turns = append(p.turns, &line{organization: w.turn.Organization})
	}
	p.turns[at].waiting = append(p.turns[at].waiting, w)
	p.waiting++
	p.give()
	return nil
}

func refused(waiting int) error {
	return &speech.Error{
		Code: speech.CodeOverloaded, Message: "Too many simultaneous speech requests; try again.", Retryable: true,
		Cause: fmt.Errorf("%d are waiting", waiting),
	}
}

func (p *Places) lineFor(organization string) int {
	return slices.IndexFunc(p.turns, func(l *line) bool { return l.organization == organization })
}

// fits tells whether there is a place for it.
func (p *Places) fits(t Turn) bool { return p.free > 0 && (!t.Long || p.long < p.maxLong) }

// give gives the places that are free to who is next. It is called under the lock.
func (p *Places) give() {
	for p.free > 0 {
		at, n := p.next()
		if at < 0 {
			return
		}
		l := p.turns[at]
		w := l.waiting[n]
		p.turns = slices.Delete(p.turns, at, at+1)
		if l.waiting = slices.Delete(l.waiting, n, n+1); len(l.waiting) > 0 {
			p.turns = append(p.turns, l) // behind the others
		}
		p.waiting--
		p.free--
		if w.turn.Long {
			p.long++
		}
		close(w.has)
	}
}

// next finds who is next: whom no place fits keeps its turn.
func (p *Places) next() (at, n int) {
	for at, l := range p.turns {
		if n := slices.IndexFunc(l.waiting, func(w *waiter) bool { return p.fits(w.turn) }); n >= 0 {
			return at, n
		}
	}
	return -1, -1
}

func (p *Places) release(turn Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if turn.Long {
		p.long--
	}
	p.give()
}

// leave has w wait no more; false when it has a place.
func (p *Places) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.lineFor(w.turn.Organization)
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
