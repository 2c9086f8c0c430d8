package httpx

import (
	"context"

	"github.com/gin-gonic/gin"

	"parley/shared/domain"
)

// Charge is the rate charge of a request that starts a run; see dispatch.Charge. It also sets the
// rate limit headers. It is used for one request.
type Charge struct {
	limiter *Limiter
	c       *gin.Context
}

// Charge returns a Charge for the request. The request is counted by Pay.
func (l *Limiter) Charge(c *gin.Context) Charge { return Charge{l, c} }

// Pay counts the request. It returns rate_limited if the limit is reached.
func (t Charge) Pay() error { return t.limiter.Spend(t.c) }

// Refund reverses Pay and updates the headers.
func (t Charge) Refund() {
	t.limiter.limits.Refund(Caller(t.c))
	t.limiter.ShowLimit(t.c)
}

// Returns reports whether Refund would restore the rate limit exactly. This is the case if the
// limit has so much room that the charge cannot cause another request to be rejected before the
// refund.
func (t Charge) Returns() bool { return t.limiter.limits.Plenty(Caller(t.c)) }

// Count counts one request of a caller without setting headers, for requests that have no HTTP
// response of their own. The error is rate_limited, or an error of the database.
func (l *Limiter) Count(ctx context.Context, who domain.Caller) error {
	d, err := l.limits.Check(ctx, who)
	if err != nil {
		return err
	}
	return Refusal(d)
}

// Uncount reverses Count.
func (l *Limiter) Uncount(who domain.Caller) { l.limits.Refund(who) }
