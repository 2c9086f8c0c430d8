package runner

import (
	"sync"
	"time"
)

// paceWindow is the time for which pieces of answers wait for others.
const paceWindow = 4 * time.Millisecond

// pace groups the pieces of all answers of a worker. A piece that arrives outside of a window is
// published immediately and begins one. Pieces that arrive within the window are published at its
// end, which begins the next one: the pieces of one run as one event, and those of all runs in one
// write to the bus.
type pace struct {
	mu      sync.Mutex
	until   time.Time // end of the window
	timer   *time.Timer
	waiting []*eventWriter
}

// admit reports whether a piece of the writer's run may be published now. If not, admit arranges
// that the writer is flushed at the end of the window. The caller holds the writer's lock and must
// not call admit again before the flush.
func (p *pace) admit(w *eventWriter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	now := time.Now()
	if len(p.waiting) == 0 {
		// No window is open, so this piece is published and opens one.
		if !now.Before(p.until) {
			p.until = now.Add(paceWindow)
			return true
		}
		p.arm(p.until.Sub(now))
	}
	p.waiting = append(p.waiting, w)
	return false
}

// arm starts the timer for the end of the window.
func (p *pace) arm(wait time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.flush)
		return
	}
	p.timer.Reset(wait)
}

// flush publishes the waiting pieces and begins the next window.
func (p *pace) flush() {
	p.mu.Lock()
	waiting := p.waiting

	// The writers are flushed without the lock of pace, because a writer calls admit while it holds
	// its own lock.
	p.waiting, p.until = nil, time.Now().Add(paceWindow)
	p.mu.Unlock()
	for _, w := range waiting {
		w.flush()
	}
}
