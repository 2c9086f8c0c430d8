package parley

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
	// firstPause is the pause after the first failure.
	firstPause = 250 * time.Millisecond
	// longestPause is the maximum pause after a response without Retry-After.
	longestPause = 8 * time.Second
)

// backOff waits before a retry of a failed request, or returns cause if the request must not be
// retried. The argument failures is the number of failed attempts before this attempt. If ctx ends,
// the returned error contains the cause of ctx and the argument cause.
func (c *Client) backOff(ctx context.Context, request Request, cause error, failures int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), cause)
	}

	limit := c.options.Retries
	if c.options.Dials > 0 && !c.reached.Load() {
		limit = min(limit, c.options.Dials) // the service has never responded, so the URL may be wrong
	}
	if failures >= limit || !repeatable(request, cause) {
		return cause
	}

	wait := backoff(failures)
	if p, is := errors.AsType[*APIError](cause); is && p.RetryAfter > 0 {
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

// repeatable reports whether repeating a request is safe and may succeed. A request that was
// certainly not executed is always safe to repeat.
func repeatable(request Request, cause error) bool {
	if p, is := errors.AsType[*APIError](cause); is {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return p.Code != "budget_exceeded" // the request was rejected, not executed
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
			return request.safeToRetry()
		}
		return p.Retryable && request.safeToRetry()
	}
	if dial, is := errors.AsType[*net.OpError](cause); is && dial.Op == "dial" {
		return true // the request was never sent
	}
	return errors.Is(cause, ErrUnreachable) && request.safeToRetry()
}

// backoff returns the pause after the given number of failures. The maximum pause doubles with each
// failure. Up to half of it is subtracted at random, so that requests that failed at the same time
// are not repeated at the same time.
func backoff(failures int) time.Duration {
	base := min(firstPause<<min(failures, 10), longestPause)
	return base/2 + rand.N(base/2+1) //nolint:gosec // G404: jitter, not a secret
}

// sleep waits for the duration d. If ctx ends earlier, it returns the cause of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
