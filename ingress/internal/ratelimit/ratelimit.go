package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/shared/store/limitdb"
)

// Window is what all limits are counted over.
const Window = time.Minute

// Counter keeps counts that all ingresses share; the store does.
type Counter interface {
	CountDemo(ctx context.Context, address string, limit int, window time.Duration) (limitdb.DemoVerdict, error)
	LeaseTokens(ctx context.Context, bucket string, capacity int, perSecond float64, want int) (limitdb.TokenGrant, error)
}

// Settings are the limits in requests a minute.
type Settings struct {
	Demo int // per client address
	User int // per credential
	// UserTotal bounds all credentials of a user together, and all keys of an organization; 0 stands for twice User.
	UserTotal int
	System    int // per organization
	Widget    Widget
}

// Decision says whether a request may pass. Where several limits hold, it is that of the tightest: the one that refuses,
// else the one with the least left. Limit is per Window; Remaining is what is left of it as far as this ingress knows.
// Reset is the time until Remaining grows by one, whether or not the request passed. RetryAfter is set when it may not pass.
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
	demo      *demoTier
	user      *tier
	userTotal *tier
	system    *tier
	widgets   widgets
}

// New makes limits that share their counts through c. It refuses settings that do not make each tier
// larger than the one below; the widgets' limits are apart.
func New(c Counter, s Settings) (*Limits, error) {
	if s.Demo < 1 || s.User <= s.Demo || s.System <= s.User {
		return nil, fmt.Errorf("limits must be 1 ≤ demo < user < system, not %d, %d, %d", s.Demo, s.User, s.System)
	}
	if s.UserTotal != 0 && s.UserTotal < s.User {
		return nil, fmt.Errorf("the limit of a user's credentials together must not be below that of one: %d, %d", s.UserTotal, s.User)
	}
	if w := s.Widget; min(w.Visitor, w.Address, w.Agent) < 0 {
		return nil, fmt.Errorf("limits of widgets must not be negative: %d, %d, %d", w.Visitor, w.Address, w.Agent)
	}
	return over(c, s, time.Now), nil
}

func over(c Counter, s Settings, now func() time.Time) *Limits {
	return &Limits{
		demo:      newDemoTier(c, s.Demo, now),
		user:      newTier(c, "user", s.User, now),
		userTotal: newTier(c, "user-total", cmp.Or(s.UserTotal, 2*s.User), now),
		system:    newTier(c, "system", s.System, now),
		widgets: widgets{
			visitor: newTier(c, "widget-visitor", s.Widget.Visitor, now),
			address: newTier(c, "widget-address", s.Widget.Address, now),
			agent:   newTier(c, "widget-agent", s.Widget.Agent, now),
			tokens:  newTier(c, "widget-tokens", s.Widget.Agent, now),
		},
	}
}

// Check counts one request of the caller; of a widget's visitor the run only, for [Limits.Visitor] has counted the request.
// Its errors mean that the count is not to be had: unavailable.
func (l *Limits) Check(ctx context.Context, caller domain.Caller) (Decision, error) {
	switch {
	case caller.Visitor.ID != "":
		return l.widgets.run(ctx, caller.Visitor)
	case caller.Kind == domain.CallerDemo:
		return l.Demo(ctx, caller.DemoClient)
	case caller.Kind == domain.CallerSystem:
		return l.system.take(ctx, caller.OrganizationID)
	default:
		return l.takeUser(ctx, caller)
	}
}

// takeUser counts a request under its credential and under who the credential belongs to. The credential comes first: a
// client that is refused by its own limit uses up nothing of what its user's other credentials may send.
func (l *Limits) takeUser(ctx context.Context, caller domain.Caller) (Decision, error) {
	of, err := l.user.take(ctx, caller.Credential)
	name := account(caller)
	if err != nil || !of.Allowed || name == "" {
		return of, err
	}

	total, err := l.userTotal.take(ctx, name)
	if err != nil || !total.Allowed {
		l.user.refund(caller.Credential)
		return total, err
	}
	if total.Remaining < of.Remaining {
		return total, nil
	}
	return of, nil
}

// account names who a caller's credential belongs to: its user, or, for an organization's key, the organization. It is
// empty when the caller's organization is unknown, as in a request that names a foreign one and is refused.
func account(caller domain.Caller) string {
	return cmp.Or(caller.UserID, caller.OrganizationID)
}

// userTurns are the limits that a request of a user or of an organization's key counts against.
func (l *Limits) userTurns(caller domain.Caller) []turn {
	turns := []turn{{l.user, caller.Credential}}
	if name := account(caller); name != "" {
		turns = append(turns, turn{l.userTotal, name})
	}
	return turns
}

// Demo counts one request of the demo client of that name, whatever becomes of it.
func (l *Limits) Demo(ctx context.Context, client string) (Decision, error) {
	return l.demo.take(ctx, client)
}

// Plenty reports whether counting a request of the caller takes a token that this ingress has at hand, with enough left beside it that
// none has to be fetched, and Refund gives it back: nobody is refused for one that is taken and given back.
func (l *Limits) Plenty(caller domain.Caller) bool {
	return caller.Kind == domain.CallerSystem && caller.Visitor.ID == "" && l.system.plenty(caller.OrganizationID)
}

// Refund gives back what Check took, for a request that turned out to be a replay. Demo requests
// and those of widgets' visitors count whatever they turn out to be.
func (l *Limits) Refund(caller domain.Caller) {
	switch {
	case caller.Visitor.ID != "":
		l.widgets.agent.refund(caller.Visitor.AgentID) // no run was begun
	case caller.Kind == domain.CallerDemo:
	case caller.Kind == domain.CallerSystem:
		l.system.refund(caller.OrganizationID)
	default:
		for _, t := range l.userTurns(caller) {
			t.tier.refund(t.key)
		}
	}
}
