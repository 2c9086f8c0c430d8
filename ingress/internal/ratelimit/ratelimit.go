package ratelimit

import (
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/shared/store"
)

// Window is what all limits are counted over.
const Window = time.Minute

// Counter keeps counts that all ingresses share; the store does.
type Counter interface {
	CountDemo(ctx context.Context, address string, limit int, window time.Duration) (store.DemoVerdict, error)
	LeaseTokens(ctx context.Context, bucket string, capacity int, perSecond float64, want int) (store.TokenGrant, error)
}

// Settings are the limits in requests a minute.
type Settings struct {
	Demo   int // per client address
	User   int // per credential
	System int // per organization
}

// Decision says whether a request may pass. Limit is per Window; Remaining is what is left of it as
// far as this ingress knows; Reset is when more is; RetryAfter is set when it may not pass.
type Decision struct {
	Allowed    bool
	Tier       string
	Limit      int
	Remaining  int
	Reset      time.Duration
	RetryAfter time.Duration
}

// Limits checks requests against their caller's tier. It is safe for concurrent use.
type Limits struct {
	demo   *demoTier
	user   *tier
	system *tier
}

// New makes limits that share their counts through c. It refuses settings that do not make each tier
// larger than the one below.
func New(c Counter, s Settings) (*Limits, error) {
	if s.Demo < 1 || s.User <= s.Demo || s.System <= s.User {
		return nil, fmt.Errorf("limits must be 1 ≤ demo < user < system, not %d, %d, %d", s.Demo, s.User, s.System)
	}
	return &Limits{
		demo:   newDemoTier(c, s.Demo, time.Now),
		user:   newTier(c, "user", s.User, time.Now),
		system: newTier(c, "system", s.System, time.Now),
	}, nil
}

// Check counts one request of the caller. Its errors mean that the count is not to be had: unavailable.
func (l *Limits) Check(ctx context.Context, caller domain.Caller) (Decision, error) {
	switch caller.Kind {
	case domain.CallerDemo:
		return l.Demo(ctx, caller.DemoClient)
	case domain.CallerSystem:
		return l.system.take(ctx, caller.OrganizationID)
	default:
		return l.user.take(ctx, caller.Credential)
	}
}

// Demo counts one request of the demo client of that name, whatever becomes of it.
func (l *Limits) Demo(ctx context.Context, client string) (Decision, error) {
	return l.demo.take(ctx, client)
}

// Refund gives back what Check took, for a request that turned out to be a replay. Demo requests
// count whatever they turn out to be.
func (l *Limits) Refund(caller domain.Caller) {
	switch caller.Kind {
	case domain.CallerDemo:
	case domain.CallerSystem:
		l.system.refund(caller.OrganizationID)
	default:
		l.user.refund(caller.Credential)
	}
}
