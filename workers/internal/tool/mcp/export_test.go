package mcp

import (
	"context"
	"net/http"
	"time"
)

// SetClock sets the clock that determines the age of lists.
func (b *Backend) SetClock(now func() time.Time) { b.lists.now = now }

// Kept returns the number of cached lists.
func (b *Backend) Kept() int {
	b.lists.mu.Lock()
	defer b.lists.mu.Unlock()
	return len(b.lists.lists)
}

// Wire returns the transport of a session with the server at origin. It sends the requests through
// the given transport.
func Wire(origin string, headers map[string]string, through http.RoundTripper) http.RoundTripper {
	return &wire{sessionCtx: context.Background(), origin: origin, headers: headers, kept: through, fresh: through}
}

// KeptFor returns the number of cached lists of an organization.
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
