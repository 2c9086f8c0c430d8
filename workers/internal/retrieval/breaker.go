package retrieval

import (
	"errors"
	"sync"
	"time"
)

const (
	maxFailures = 3                // number of consecutive timeouts after which the service is not called for a while
	pause       = 10 * time.Second // time for which the service is not called after maxFailures timeouts
)

var (
	// errAway is the error of a vector search while the breaker prevents calls to the embeddings
	// service.
	errAway     = errors.New("the embeddings service has not responded recently")
	errNoVector = errors.New("the embeddings service returned no vector")
)

// breaker makes calls fail immediately while a service does not respond, so that searches do not
// wait for the service. All organizations share it.
type breaker struct {
	now func() time.Time

	mu     sync.Mutex
	failed int // number of consecutive timeouts
	until  time.Time
}

// open reports whether the service may be called. While the service does not respond, one call is
// allowed after each pause.
func (g *breaker) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed < maxFailures {
		return true
	}
	// The pause after the latest timeout has not ended.
	if g.now().Before(g.until) {
		return false
	}

	// The pause has ended, so this call tests the service. All other calls have to wait for the end
	// of the next pause.
	g.until = g.now().Add(pause)
	return true
}

// note records whether a call has succeeded or timed out.
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
