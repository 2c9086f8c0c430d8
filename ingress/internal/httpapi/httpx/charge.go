package httpx

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// Charge counts a run request against its caller's rate limit and sets the rate limit headers.
type Charge struct {
	limiter *Limiter
	c       *gin.Context
}

// Charge returns the charge for a request, and does not count the request yet.
func (l *Limiter) Charge(c *gin.Context) Charge { return Charge{l, c} }

// Pay counts the request. It returns rate_limited if the limit is reached.
func (t Charge) Pay() error { return t.limiter.Spend(t.c) }

// Refund reverses Pay and updates the headers.
func (t Charge) Refund() {
	t.limiter.limits.Refund(Caller(t.c))
	t.limiter.ShowLimit(t.c)
}

// Returns reports whether Refund fully reverses Pay and no request in between was affected.
func (t Charge) Returns() bool { return t.limiter.limits.Plenty(Caller(t.c)) }

// Count counts one request of a caller, for requests without an HTTP response on which to set headers.
func (l *Limiter) Count(ctx context.Context, who domain.Caller) error {
	d, err := l.limits.Check(ctx, who)
	if err != nil {
		return err
	}
	return Refusal(d)
}

// Uncount reverses Count.
func (l *Limiter) Uncount(who domain.Caller) { l.limits.Refund(who) }
