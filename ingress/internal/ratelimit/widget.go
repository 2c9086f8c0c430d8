package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"parley/shared/domain"
)

// Widget contains the limits for widget visitors in requests per minute; 0 refuses all requests.
type Widget struct {
	Visitor int // limit on the requests of each visitor of an agent
	Address int // limit on the requests from each client address, including those for tokens
	Agent   int // limit on the new runs of each agent, and separately on its new tokens
}

// widgets counts each request of a visitor in several tiers. A client that invents many visitor ids
// reaches the limit of its IP address. A client with many addresses reaches the limit of the agent.
// New widget tokens have a separate limit. If a client uses up that limit, visitors who already
// have a token can still chat.
type widgets struct{ visitor, address, agent, tokens *tier }

// turn is a tier, and the key under which the tier counts a request.
type turn struct {
	tier *tier
	key  string
}

// request returns the turns for every request of a visitor. The address comes first, because its
// limit bounds the number of visitor ids that one client can invent.
func (w *widgets) request(v domain.Visitor) []turn {
	sum := sha256.Sum256([]byte(v.ID)) // hashed, because websites may use email addresses as visitor names
	return []turn{{w.address, v.Client}, {w.visitor, v.AgentID + ":" + hex.EncodeToString(sum[:16])}}
}

// run counts a visitor's run after the request itself was counted. It returns the tightest
// decision.
func (w *widgets) run(ctx context.Context, v domain.Visitor) (Decision, error) {
	// The response must show the tightest limit. That may be a limit that the request itself has
	// already passed.
	d, err := w.agent.take(ctx, v.AgentID)
	if err != nil || !d.Allowed {
		return d, err
	}
	if seen := peek(w.request(v)); seen.Remaining < d.Remaining {
		seen.Allowed, seen.RetryAfter = true, 0 // the request itself has already passed that limit
		return seen, nil
	}
	return d, nil
}

// take counts a request in each turn until one refuses it, and returns the tightest decision. It
// refunds nothing, so a refused request uses up the limits that it has passed. The order of the
// turns matters. If a turn cannot be counted, take returns the error of the first such turn.
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

// peek returns the same decision as take, but counts nothing.
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
// the request starts. The error has the code unavailable if the request cannot be counted.
func (l *Limits) Visitor(ctx context.Context, v domain.Visitor) (Decision, error) {
	return take(ctx, l.widgets.request(v))
}

// WidgetAddress counts a request from a page with a widget under the client's address, whatever its
// outcome.
func (l *Limits) WidgetAddress(ctx context.Context, client string) (Decision, error) {
	return l.widgets.address.take(ctx, client)
}

// WidgetToken counts the creation of a widget token for an agent's visitor. The limit on tokens is
// separate from the limit on runs.
func (l *Limits) WidgetToken(ctx context.Context, agentID string) (Decision, error) {
	return l.widgets.tokens.take(ctx, agentID)
}
