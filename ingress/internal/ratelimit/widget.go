package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"parley/shared/domain"
)

// Widget are the limits of widgets' visitors in requests a minute; 0 lets nobody pass.
type Widget struct {
	Visitor int // per visitor of an agent: chats
	Address int // per client address: chats and new tokens
	Agent   int // per agent: chats and new tokens
}

// widgets counts each request under several names: whoever has many visitors has one address, whoever has
// many addresses meets the agent's limit.
type widgets struct{ visitor, address, agent *tier }

// turn is one name that a request is counted under.
type turn struct {
	tier *tier
	key  string
}

// chat is what a visitor's message counts under; the address first, which bounds how many names one client makes up.
func (w *widgets) chat(v domain.Visitor) []turn {
	sum := sha256.Sum256([]byte(v.ID)) // for sites name visitors as they like: by their addresses, say
	return []turn{{w.address, v.Client}, {w.visitor, v.AgentID + ":" + hex.EncodeToString(sum[:16])}, {w.agent, v.AgentID}}
}

// take counts a request under all names or none, and decides as the name does that leaves it the least.
func take(ctx context.Context, turns []turn) (least Decision, err error) {
	for i, t := range turns {
		d, err := t.tier.take(ctx, t.key)
		if err != nil || !d.Allowed {
			refund(turns[:i])
			return d, err
		}
		if i == 0 || d.Remaining < least.Remaining {
			least = d
		}
	}
	return least, nil
}

func refund(turns []turn) {
	for _, t := range turns {
		t.tier.refund(t.key)
	}
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

// WidgetAddress counts a request for a widget token by its client's address, whatever becomes of it.
func (l *Limits) WidgetAddress(ctx context.Context, client string) (Decision, error) {
	return take(ctx, []turn{{l.widgets.address, client}})
}

// WidgetAgent counts a widget token of an agent.
func (l *Limits) WidgetAgent(ctx context.Context, agentID string) (Decision, error) {
	return take(ctx, []turn{{l.widgets.agent, agentID}})
}
