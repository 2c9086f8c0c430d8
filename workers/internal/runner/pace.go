package runner

import (
	"sync"
	"time"
)

// paceWindow is the time for which pieces of answers wait, so that they can be published together.
const paceWindow = 4 * time.Millisecond

// pace groups the pieces of all answers of a worker. A piece that arrives outside of a window is
// published immediately and begins a window. Pieces that arrive during a window are published at
// its end, which begins the next window. At the end of a window, the pieces of each run become one
// event, and the events of all runs are one write to the bus.
//
// The lock of a writer may be held when the lock of pace is taken. The lock of pace must not be
// held when the lock of a writer is taken.
type pace struct {
	mu      sync.Mutex
	until   time.Time // end of the current window
	timer   *time.Timer
	waiting []*eventWriter // the writers to flush at the end of the window
}

// admit reports whether the writer may publish a piece now. If not, the writer is flushed at the
// end of the window. The caller must hold the writer's lock, and must not call admit again before
// the flush.
func (p *pace) admit(w *eventWriter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	now := time.Now()
	if len(p.waiting) == 0 {
		// No window is open. Publish the piece and open a window.
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

// flush publishes the waiting pieces of all writers and begins the next window.
func (p *pace) flush() {
	p.mu.Lock()
	waiting := p.waiting

	// Flush the writers without holding the lock of pace: a writer that calls admit holds its own
	// lock, so the opposite order could lead to a deadlock.
	p.waiting, p.until = nil, time.Now().Add(paceWindow)
	p.mu.Unlock()
	for _, w := range waiting {
		w.flush()
	}
}
