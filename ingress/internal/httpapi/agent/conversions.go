package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/ingress/internal/httpapi/httpx"
)

// conversions lets an ingress convert one OpenAPI document at a time, because a conversion can use a
// core for a second. An organization has at most one conversion that runs or waits, so that the
// organizations take turns. It is safe for concurrent use.
type conversions struct {
	slot chan struct{} // full while a conversion runs; callers get it in the order of their arrival
	mu   sync.Mutex
	orgs map[string]bool // organizations whose conversion runs or waits
}

// newConversions returns conversions without callers.
func newConversions() *conversions {
	return &conversions{slot: make(chan struct{}, 1), orgs: map[string]bool{}}
}

// enter waits for the slot. The caller must call leave after the conversion. The error is
// rate_limited if a conversion of the organization already runs or waits.
func (c *conversions) enter(ctx context.Context, org string) (leave func(), err error) {
	c.mu.Lock()
	if c.orgs[org] {
		c.mu.Unlock()
		return nil, httpx.RateLimited(time.Second, "another import of this organization is in progress; try again after it")
	}
	c.orgs[org] = true
	c.mu.Unlock()

	select {
	case c.slot <- struct{}{}:
		return func() { <-c.slot; c.forget(org) }, nil
	case <-ctx.Done():
		c.forget(org)
		return nil, fmt.Errorf("waiting to convert a document: %w", ctx.Err())
	}
}

// forget permits the next conversion of the organization.
func (c *conversions) forget(org string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orgs, org)
}
