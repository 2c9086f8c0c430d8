package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// conversionWait is the longest time for which a document waits for its conversion.
const conversionWait = 20 * time.Second

// conversions lets an ingress convert one OpenAPI document at a time, because a conversion can use a
// core for a second. An organization has at most one conversion that runs or waits, so it cannot
// delay the others for long. It is safe for concurrent use.
type conversions struct {
	slot chan struct{} // full while a conversion runs
	mu   sync.Mutex
	orgs map[string]bool // organizations whose conversion runs or waits
}

// newConversions returns conversions without callers.
func newConversions() *conversions {
	return &conversions{slot: make(chan struct{}, 1), orgs: map[string]bool{}}
}

// enter waits for the slot. The caller must call leave after the conversion. The error is
// rate_limited if a conversion of the organization already runs or waits, and overloaded if the wait
// exceeds conversionWait.
func (c *conversions) enter(ctx context.Context, org string) (leave func(), err error) {
	c.mu.Lock()
	if c.orgs[org] {
		c.mu.Unlock()
		return nil, httpx.RateLimited(time.Second, "another import of this organization is in progress; try again after it")
	}
	c.orgs[org] = true
	c.mu.Unlock()

	timer := time.NewTimer(conversionWait)
	defer timer.Stop()
	select {
	case c.slot <- struct{}{}:
		return func() { <-c.slot; c.forget(org) }, nil
	case <-timer.C:
		err = apierr.New(apierr.Overloaded, "too many imports wait; try again later")
	case <-ctx.Done():
		err = fmt.Errorf("waiting to convert a document: %w", ctx.Err())
	}
	c.forget(org)
	return nil, err
}

// forget permits the next conversion of the organization.
func (c *conversions) forget(org string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orgs, org)
}
