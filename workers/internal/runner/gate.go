package runner

import (
	"context"
	"sync"
)

// gate stops a worker from fetching job messages while the database does not answer. A fetched
// message is acknowledged, so a worker that cannot claim its run would only delay it: the sweeper
// publishes the job again, and the same worker may receive it again.
type gate struct {
	mu sync.Mutex
	// wait receives from opened, so closing the channel wakes all goroutines that wait.
	opened chan struct{} // closed while the gate is open
	open   bool
	// doubted gets a value when the gate closes. It has capacity 1.
	doubted chan struct{}
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{opened: make(chan struct{}), open: true, doubted: make(chan struct{}, 1)}
	close(g.opened)
	return g
}

// close closes the gate, because a statement has failed or has taken too long. Calls on a closed
// gate do nothing.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return
	}

	// The goroutine that announces slots receives doubted and then tests the database.
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
