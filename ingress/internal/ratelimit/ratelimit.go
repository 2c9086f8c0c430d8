package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"parley/shared/domain"
	"parley/shared/store/limitdb"
)

// Window is the period of all limits.
const Window = time.Minute

// Counter stores the counts that all ingresses share. Package limitdb implements it.
type Counter interface {
	// CountDemo counts a request from an address if fewer than limit requests were counted for the
	// address within the window.
	CountDemo(ctx context.Context, address string, limit int, window time.Duration) (limitdb.DemoVerdict, error)
	// LeaseTokens takes tokens from a bucket: at most as many as the argument want says. The bucket
	// gains perSecond tokens a second, up to capacity.
	LeaseTokens(ctx context.Context, bucket string, capacity int, perSecond float64, want int) (limitdb.TokenGrant, error)
}

// Settings are the limits in requests per minute.
type Settings struct {
	Demo int // limit for each client address
	User int // limit for each credential of a user or organization
	// UserTotal is the limit for all credentials of a user together, and for all keys of an
	// organization together. 0 means twice User.
	UserTotal int
	System    int // limit for each organization
	Widget    Widget
}

// Decision says whether a request may pass. If several limits apply, it describes the tightest one:
// the limit that refuses the request, or the limit with the fewest requests left. Limit is per
// Window. Remaining is the number of requests left, as far as this ingress knows. Reset is the time
// until Remaining grows by one. RetryAfter is set if the request is refused.
type Decision struct {
	Allowed    bool
	Tier       string
	Limit      int
	Remaining  int
	Reset      time.Duration
	RetryAfter time.Duration
}

// Limits checks requests against the tier of their caller. It is safe for concurrent use.
type Limits struct {
	demo      *demoTier
	user      *tier
	userTotal *tier
	system    *tier
	widgets   widgets
}

// New returns limits that store their counts in c. It returns an error if a tier's limit is not
// larger than the limit of the tier below. The limits of widgets are exempt from this rule. The
// error describes an invalid setting.
func New(c Counter, s Settings) (*Limits, error) {
	if s.Demo < 1 || s.User <= s.Demo || s.System <= s.User {
		return nil, fmt.Errorf("limits must be 1 ≤ demo < user < system, not %d, %d, %d", s.Demo, s.User, s.System)
	}
	if s.UserTotal != 0 && s.UserTotal < s.User {
		return nil, fmt.Errorf("the total limit of a user (%d) must not be below the limit of a credential (%d)", s.UserTotal, s.User)
	}
	if w := s.Widget; min(w.Visitor, w.Address, w.Agent) < 0 {
		return nil, fmt.Errorf("widget limits must not be negative: %d, %d, %d", w.Visitor, w.Address, w.Agent)
	}
	return over(c, s, time.Now), nil
}

// over returns Limits for valid settings. Tests call it to set their own clock.
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

// Check counts one request of the caller. For a widget visitor it counts only the run, because
// [Limits.Visitor] has already counted the request. Check returns an error if the request cannot be
// counted. A refusal is no error: the decision then has Allowed false.
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

// takeUser counts a request first under its credential and then under the owner of the credential.
// If the limit of the credential refuses a request, the request therefore does not use up the limit
// that all credentials of the owner share. The decision is that of the tighter limit.
func (l *Limits) takeUser(ctx context.Context, caller domain.Caller) (Decision, error) {
	of, err := l.user.take(ctx, caller.Credential)
	name := account(caller)
	if err != nil || !of.Allowed || name == "" {
		return of, err
	}

	// If the limit of the owner refuses the request, the token of the credential's bucket is
	// refunded.
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

// account returns the owner of a caller's credential: the user, or the organization if the key
// belongs to an organization. It returns "" if the organization is unknown, for example in a
// rejected request that names another organization.
func account(caller domain.Caller) string {
	return cmp.Or(caller.UserID, caller.OrganizationID)
}

// userTurns returns the buckets in which a request of a user or of an organization's key is
// counted.
func (l *Limits) userTurns(caller domain.Caller) []turn {
	turns := []turn{{l.user, caller.Credential}}
	if name := account(caller); name != "" {
		turns = append(turns, turn{l.userTotal, name})
	}
	return turns
}

// Demo counts one request of a demo client, whatever its outcome.
func (l *Limits) Demo(ctx context.Context, client string) (Decision, error) {
	return l.demo.take(ctx, client)
}

// Plenty reports whether this ingress can count a request of the caller without leasing tokens, and
// whether Refund restores the token completely. If so, taking and refunding a token cannot cause
// another request to be refused.
func (l *Limits) Plenty(caller domain.Caller) bool {
	return caller.Kind == domain.CallerSystem && caller.Visitor.ID == "" && l.system.plenty(caller.OrganizationID)
}

// Refund puts back the token that Check has taken for a request that turned out to be a replay. The
// requests of demo clients are not refunded. For a widget visitor, only the run is refunded, not
// the request. A refund after the tokens have expired is lost.
func (l *Limits) Refund(caller domain.Caller) {
	switch {
	case caller.Visitor.ID != "":
		l.widgets.agent.refund(caller.Visitor.AgentID) // the replay has started no run
	case caller.Kind == domain.CallerDemo:
	case caller.Kind == domain.CallerSystem:
		l.system.refund(caller.OrganizationID)
	default:
		for _, t := range l.userTurns(caller) {
			t.tier.refund(t.key)
		}
	}
}
