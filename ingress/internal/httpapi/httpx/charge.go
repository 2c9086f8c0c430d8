package httpx

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// Charge counts a request that begins a run against its caller's limit, and shows on the response where that stands.
type Charge struct {
	limiter *Limiter
	c       *gin.Context
}

// Charge makes the charge of a request.
func (l *Limiter) Charge(c *gin.Context) Charge { return Charge{l, c} }

// Pay counts the request.
func (t Charge) Pay() error { return t.limiter.Spend(t.c) }

// Refund takes back what Pay counted.
func (t Charge) Refund() {
	t.limiter.limits.Refund(Caller(t.c))
	t.limiter.ShowLimit(t.c)
}

// Returns reports whether Refund would give all back.
func (t Charge) Returns() bool { return t.limiter.limits.Plenty(Caller(t.c)) }

// Count counts something of a caller that has no response to show the limit on.
func (l *Limiter) Count(ctx context.Context, who domain.Caller) error {
	d, err := l.limits.Check(ctx, who)
	if err != nil {
		return err
	}
	return Refusal(d)
}

// Uncount takes back what Count counted.
func (l *Limiter) Uncount(who domain.Caller) { l.limits.Refund(who) }
