package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"parley/shared/domain"
)

// Widget are the limits of widgets' visitors in requests a minute; 0 lets nobody pass.
type Widget struct {
	Visitor int // per visitor of an agent: requests
	Address int // per client address: requests, and those for tokens
	Agent   int // per agent: new runs, and as many new tokens
}

// widgets counts what visitors send under several names: whoever has many visitors has one address, whoever has many
// addresses meets the agent's limits. Tokens have one of their own: whoever asks for all of them silences nobody who has one.
type widgets struct{ visitor, address, agent, tokens *tier }

// turn is one name that a request is counted under.
type turn struct {
	tier *tier
	key  string
}

// request is what whatever a visitor sends counts under; the address first, which bounds how many names one client makes up.
func (w *widgets) request(v domain.Visitor) []turn {
	sum := sha256.Sum256([]byte(v.ID)) // for sites name visitors as they like: by their addresses, say
	return []turn{{w.address, v.Client}, {w.visitor, v.AgentID + ":" + hex.EncodeToString(sum[:16])}}
}

// run counts a run that a visitor begins, whose request was counted before, and decides as the name does that leaves it
// the least.
func (w *widgets) run(ctx context.Context, v domain.Visitor) (Decision, error) {
	d, err := w.agent.take(ctx, v.AgentID)
	if err != nil || !d.Allowed {
		return d, err
	}
	if seen := peek(w.request(v)); seen.Remaining < d.Remaining {
		seen.Allowed, seen.RetryAfter = true, 0 // what that has left none of, this request has had
		return seen, nil
	}
	return d, nil
}

// take counts a request under its names up to one that refuses it, and decides as the name does that leaves it the least.
// Nothing is given back: who is refused and goes on has used up what they sent.
func take(ctx context.Context, turns []turn) (least Decision, err error) {
	for i, t := range turns {
		d, err := t.tier.take(ctx, t.key)
		if err != nil || !d.Allowed {
			return d, err
		}
		if i == 0 || d.Remaining < least.Remaining {
			least = d
		}
	}
	return least, nil
}

// peek is take without counting.
func peek(turns []turn) (least Decision) {
	for i, t := range turns {
		d := t.tier.peek(t.key)
		if !d.Allowed {
			return d
		}
		if i == 0 || d.Remaining < least.Remaining {
			least = d
		}
	}
	return least
}

// Visitor counts a request of a widget's visitor, whatever becomes of it; the run that it may begin is Check's matter.
func (l *Limits) Visitor(ctx context.Context, v domain.Visitor) (Decision, error) {
	return take(ctx, l.widgets.request(v))
}

// WidgetAddress counts a request of a widget's page by its client's address, whatever becomes of it.
func (l *Limits) WidgetAddress(ctx context.Context, client string) (Decision, error) {
	return l.widgets.address.take(ctx, client)
}

// WidgetToken counts a widget token that an agent's visitor is to get.
func (l *Limits) WidgetToken(ctx context.Context, agentID string) (Decision, error) {
	return l.widgets.tokens.take(ctx, agentID)
}
