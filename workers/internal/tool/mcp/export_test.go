package mcp

import (
	"context"
	"net/http"
	"time"
)

// SetClock has the lists age by another clock.
func (b *Backend) SetClock(now func() time.Time) { b.lists.now = now }

// Kept is how many lists are kept.
func (b *Backend) Kept() int {
	b.lists.mu.Lock()
	defer b.lists.mu.Unlock()
	return len(b.lists.lists)
}

// Wire carries requests of a session with a server at origin through another transport.
func Wire(origin string, headers map[string]string, through http.RoundTripper) http.RoundTripper {
	return &wire{sessionCtx: context.Background(), origin: origin, headers: headers, kept: through, fresh: through}
}

// KeptFor is how many lists of an organization are kept.
func (b *Backend) KeptFor(org string) int {
	b.lists.mu.Lock()
	defer b.lists.mu.Unlock()
	n := 0
	for _, l := range b.lists.lists {
		if l.org == org {
			n++
		}
	}
	return n
}
