package ratelimit

import (
	"math"
	"time"

	"parley/shared/domain"
)

// Peek says where a caller's limit stands, as far as this ingress knows, and counts nothing: what
// answers show that cost nothing. It asks no database. A bucket that was not used here of late is
// taken for full. ok is false for callers without a limit.
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

// peek knows of a demo client only that it is refused: its requests are counted elsewhere.
func (d *demoTier) peek(client string) (Decision, bool) {
	wait := d.remembered(client)
	return d.refusal(wait), wait > 0
}

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
	case now.Before(b.paused):
		wait := b.paused.Sub(now)
		return Decision{Tier: t.name, Limit: t.limit, Reset: wait, RetryAfter: wait}
	case now.Before(b.until):
		return t.standing(b, now)
	default:
		return t.full()
	}
}

// full is the decision of an unused bucket.
func (t *tier) full() Decision {
	return Decision{Allowed: true, Tier: t.name, Limit: t.limit, Remaining: t.limit}
}

// standing is the decision that lets a request pass and leaves what the bucket holds.
func (t *tier) standing(b *bucket, now time.Time) Decision {
	kept := min(float64(t.limit), b.left+t.perSecond*now.Sub(b.leased).Seconds())
	return Decision{
		Allowed: true, Tier: t.name, Limit: t.limit, Remaining: min(t.limit, b.tokens+int(b.left)),
		Reset: t.untilToken(kept - math.Floor(kept)),
	}
}
