package runner

import (
	"context"
	"sync"
)

// gate stops a worker from fetching job messages while the database does not answer. A worker
// acknowledges each message that it fetches. If the worker cannot claim the run, the run is delayed
// until the sweeper publishes the job again, perhaps to the same worker. A gate is safe for
// concurrent use.
type gate struct {
	mu sync.Mutex
	// The method wait receives from opened. The method reopen closes this channel, which wakes all
	// waiting goroutines.
	opened chan struct{} // closed while the gate is open
	open   bool
	// doubted receives a value when the gate closes. Its capacity is 1.
	doubted chan struct{}
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{opened: make(chan struct{}), open: true, doubted: make(chan struct{}, 1)}
	close(g.opened)
	return g
}

// close closes the gate, because a statement has failed or takes too long. It does nothing if the
// gate is already closed.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return
	}

	// The goroutine of announce receives from doubted and then tests the database with a statement.
	g.open, g.opened = false, make(chan struct{})
	select {
	case g.doubted <- struct{}{}:
	default:
	}
}

// reopen opens the gate, because a statement has succeeded.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		g.open = true
		close(g.opened)
	}
}

// wait waits until the gate is open or ctx ends.
func (g *gate) wait(ctx context.Context) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
	}
}
