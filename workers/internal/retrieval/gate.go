package retrieval

import (
	"errors"
	"sync"
	"time"
)

const (
	faults = 3                // in a row close the gate
	pause  = 10 * time.Second // before the service is asked again
)

var (
	errAway     = errors.New("the embeddings service failed recently")
	errNoVector = errors.New("the embeddings service returned no vector")
)

// gate keeps searches from waiting for a service that is away, each for as long as it may.
type gate struct {
	now func() time.Time

	mu     sync.Mutex
	failed int // in a row
	until  time.Time
}

// open reports whether the service may be asked. Behind a pause, one is let through to find out.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed < faults {
		return true
	}
	if g.now().Before(g.until) {
		return false
	}
	g.until = g.now().Add(pause)
	return true
}

// note takes in how asking went.
func (g *gate) note(well bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if well {
		g.failed = 0
		return
	}
	if g.failed++; g.failed >= faults {
		g.until = g.now().Add(pause)
	}
}
