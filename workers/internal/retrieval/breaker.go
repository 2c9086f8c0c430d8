package retrieval

import (
	"errors"
	"sync"
	"time"
)

const (
	maxFailures = 3                // consecutive failures that close the breaker
	pause       = 10 * time.Second // before the service is called again
)

var (
	errAway     = errors.New("the embeddings service failed recently")
	errNoVector = errors.New("the embeddings service returned no vector")
)

// breaker keeps searches from waiting for an unavailable service.
type breaker struct {
	now func() time.Time

	mu     sync.Mutex
	failed int // consecutive failures
	until  time.Time
}

// open reports whether the service may be called. After each pause, it lets one call through.
func (g *breaker) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed < maxFailures {
		return true
	}
	if g.now().Before(g.until) {
		return false
	}
	g.until = g.now().Add(pause)
	return true
}

// note records the outcome of a call.
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
