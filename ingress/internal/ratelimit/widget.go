package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"parley/shared/domain"
)

// Widget contains the limits for widget visitors in requests per minute; 0 refuses all requests.
type Widget struct {
	Visitor int // requests per visitor of an agent
	Address int // requests per client address, including those for tokens
	Agent   int // new runs per agent; new tokens have a separate limit of the same size
}

// widgets counts each visitor request under several names. A client with many visitor ids reaches
// the limit of its IP address, and a client with many addresses reaches the agent's limits. New
// tokens have a separate limit: if a client uses up that limit, visitors who have a token can still
// chat.
type widgets struct{ visitor, address, agent, tokens *tier }

// turn is one name under which a request is counted.
type turn struct {
	tier *tier
	key  string
}

// request returns the names under which every request from a visitor is counted. The address comes
// first, because its limit bounds the number of visitor ids that one client can invent.
func (w *widgets) request(v domain.Visitor) []turn {
	sum := sha256.Sum256([]byte(v.ID)) // websites may use addresses as visitor names
	return []turn{{w.address, v.Client}, {w.visitor, v.AgentID + ":" + hex.EncodeToString(sum[:16])}}
}

// run counts a visitor's run whose request was counted before. It returns the tightest decision.
func (w *widgets) run(ctx context.Context, v domain.Visitor) (Decision, error) {
	// The response shows the tightest limit, which may be one that the request has already passed.
	d, err := w.agent.take(ctx, v.AgentID)
	if err != nil || !d.Allowed {
		return d, err
	}
	if seen := peek(w.request(v)); seen.Remaining < d.Remaining {
		seen.Allowed, seen.RetryAfter = true, 0 // that limit has already allowed this request
		return seen, nil
	}
	return d, nil
}

// take counts a request under its names, up to the first refusal, and returns the tightest
// decision. Nothing is refunded: refused requests use up the limits that they passed.
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

// Visitor counts a request from a widget's visitor, whatever its outcome. Check counts the run that
// the request starts.
func (l *Limits) Visitor(ctx context.Context, v domain.Visitor) (Decision, error) {
	return take(ctx, l.widgets.request(v))
}

// WidgetAddress counts a request from a page with a widget under the client's address, whatever its
// outcome.
func (l *Limits) WidgetAddress(ctx context.Context, client string) (Decision, error) {
	return l.widgets.address.take(ctx, client)
}

// WidgetToken counts the creation of a widget token for an agent's visitor.
func (l *Limits) WidgetToken(ctx context.Context, agentID string) (Decision, error) {
	return l.widgets.tokens.take(ctx, agentID)
}
