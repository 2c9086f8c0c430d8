package retrieval

import (
	"errors"
	"sync"
	"time"
)

const (
	maxFailures = 3                // consecutive failures that close the breaker
	pause       = 10 * time.Second // how long the service is not called after failures
)

var (
	// errAway is returned without a call.
	errAway     = errors.New("the embeddings service failed recently")
	errNoVector = errors.New("the embeddings service returned no vector")
)

// breaker makes calls fail immediately while a service is unavailable, so that searches do not wait
// for it.
type breaker struct {
	now func() time.Time

	mu     sync.Mutex
	failed int // consecutive failures
	until  time.Time
}

// open reports whether the service may be called. While the service is unavailable, only one call
// is allowed after each pause.
func (g *breaker) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed < maxFailures {
		return true
	}
	// The pause after the latest failure is not over.
	if g.now().Before(g.until) {
		return false
	}

	// This call tests the service. The others wait for the next pause to end.
	g.until = g.now().Add(pause)
	return true
}

// note records whether a call succeeded.
func (g *breaker) note(well bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if well {
		g.failed = 0
		return
	}
	if g.failed++; g.failed >= maxFailures {
		g.until = g.now().Add(pause)
	}
}
