package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 8 * time.Second
)

// backOff waits until a request that failed may be sent again, or gives its error back.
func (c *Client) backOff(ctx context.Context, request Request, cause error, failures int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), cause)
	}
	limit := c.options.Retries
	if c.options.Dials > 0 && !c.reached.Load() {
		limit = min(limit, c.options.Dials) // it is not there: somebody waits to be told
	}
	if failures >= limit || !repeatable(request, cause) {
		return cause
	}
	wait := backoff(failures)
	if p, is := errors.AsType[*ProblemError](cause); is && p.RetryAfter > 0 {
		if p.RetryAfter > c.options.Patience {
			return cause
		}
		wait = p.RetryAfter
	}
	if c.options.Waiting != nil {
		c.options.Waiting(cause, wait)
	}
	if err := c.options.pause(ctx, wait); err != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return nil
}

// repeatable reports whether the same request may help later, and does no harm.
func repeatable(request Request, cause error) bool {
	if p, is := errors.AsType[*ProblemError](cause); is {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return p.Code != "budget_exceeded" // nothing was accepted
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
			return request.again()
		}
		return p.Retryable && request.again()
	}
	if dial, is := errors.AsType[*net.OpError](cause); is && dial.Op == "dial" {
		return true // nothing was sent
	}
	return errors.Is(cause, ErrAway) && request.again()
}

// backoff is the pause after that many failures: twice as long each time, and some chance, so that those who failed
// together do not come back together.
func backoff(failures int) time.Duration {
	base := min(firstPause<<min(failures, 10), longestPause)
	return base/2 + rand.N(base/2+1) //nolint:gosec // G404: chance, no secret
}
