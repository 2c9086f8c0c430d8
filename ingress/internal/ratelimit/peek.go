package ratelimit

import (
	"math"
	"time"

	"parley/shared/domain"
)

// Peek returns the state of a caller's limit as this ingress knows it, for responses to requests
// that are not counted. It counts no request and does not use the database. A bucket that this
// ingress has not used counts as full. ok is false for callers without a limit.
func (l *Limits) Peek(caller domain.Caller) (d Decision, ok bool) {
	switch {
	case caller.Visitor.ID != "":
		w := &l.widgets
		return peek(append(w.request(caller.Visitor), turn{w.agent, caller.Visitor.AgentID})), true
	case caller.Kind == domain.CallerDemo:
		return l.demo.peek(caller.DemoClient)
	case caller.Kind == domain.CallerSystem:
		return l.system.peek(caller.OrganizationID), true
	case caller.Kind == domain.CallerUser:
		return peek(l.userTurns(caller)), true
	default:
		return Decision{}, false
	}
}

// peek reports whether a demo client is refused. The number of remaining requests is unknown,
// because requests are counted in the database.
func (d *demoTier) peek(client string) (Decision, bool) {
	wait := d.remembered(client)
	return d.refusal(wait), wait > 0
}

// peek returns the state of a bucket without taking or leasing tokens. The caller must not hold
// t.mu.
func (t *tier) peek(key string) Decision {
	if t.limit < 1 {
		return t.closed()
	}
	t.mu.RLock()
	b := t.buckets[key]
	t.mu.RUnlock()
	if b == nil {
		return t.full()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := t.now()
	switch {
	case now.Before(b.until) && b.tokens > 0:
		return t.standing(b, now)
	// Requests are refused during the pause after a refusal or a failed lease.
	case now.Before(b.paused):
		wait := b.paused.Sub(now)
		return Decision{Tier: t.name, Limit: t.limit, Reset: wait, RetryAfter: wait}
	case now.Before(b.until):
		return t.standing(b, now)
	default:
		return t.full()
	}
}

// full returns the decision for an unused bucket.
func (t *tier) full() Decision {
	return Decision{Allowed: true, Tier: t.name, Limit: t.limit, Remaining: t.limit}
}

// standing returns the decision for a request that passes. It includes the number of tokens left in
// the bucket.
func (t *tier) standing(b *bucket, now time.Time) Decision {
	// The sum includes the tokens that the bucket in the database has gained since the last lease.
	kept := min(float64(t.limit), b.left+t.perSecond*now.Sub(b.leased).Seconds())
	return Decision{
		Allowed: true, Tier: t.name, Limit: t.limit, Remaining: min(t.limit, b.tokens+int(b.left)),
		Reset: t.untilToken(kept - math.Floor(kept)),
	}
}
