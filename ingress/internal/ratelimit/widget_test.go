package ratelimit

import (
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
)

func visitorAt(agent, visitor, client string) domain.Caller {
	return domain.Caller{Kind: domain.CallerUser, Credential: "widget", Visitor: domain.Visitor{ID: visitor, AgentID: agent, Client: client}}
}

var widgetLimits = Settings{Demo: 1, User: 2, System: 3, Widget: Widget{Visitor: 20, Address: 60, Agent: 120}}

// sendMessage counts a visitor's message and the run that it starts.
func sendMessage(t *testing.T, l *Limits, caller domain.Caller) Decision {
	t.Helper()
	d, err := l.Visitor(t.Context(), caller.Visitor)
	if err == nil && d.Allowed {
		d, err = l.Check(t.Context(), caller)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The limits of visitor, address and agent apply independently, and across ingresses. The decision
// on a refused request names the limit that the request exceeded.
func TestWidgetLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		caller func(n int) domain.Caller
		passed int
		tier   string
	}{
		"one visitor":                  {func(int) domain.Caller { return visitorAt("a", "v", "192.0.2.1") }, 20, "widget-visitor"},
		"one visitor, many addresses":  {func(n int) domain.Caller { return visitorAt("a", "v", string(rune('A'+n))) }, 20, "widget-visitor"},
		"many visitors of one address": {func(n int) domain.Caller { return visitorAt("a", string(rune('A'+n)), "192.0.2.1") }, 60, "widget-address"},
		"many visitors of one address, many agents": {
			func(n int) domain.Caller { return visitorAt(string(rune('A'+n)), "v", "192.0.2.1") }, 60, "widget-address",
		},
		"many visitors of many addresses": {func(n int) domain.Caller { return visitorAt("a", string(rune('A'+n)), string(rune('A'+n))) }, 120, "widget-agent"},
	} {
		l := newLedger()
		through := []*Limits{ingress(l, widgetLimits), ingress(l, widgetLimits)}
		passed, refused := 0, Decision{}
		for n := range 200 {
			d := sendMessage(t, through[n%2], c.caller(n))
			if d.Allowed {
				passed++
			} else if refused.Tier == "" {
				refused = d
				seen, known := through[n%2].Peek(c.caller(n))
				if !known || seen.Allowed || seen.Tier != d.Tier {
					t.Errorf("%s: peeked %+v", name, seen)
				}
			}
		}
		// Each other ingress may hold one and a half chunks of leased tokens.
		if passed > c.passed || passed < c.passed-2*max(1, c.passed/chunks*3/2) || refused.Tier != c.tier || refused.Limit != c.passed || refused.RetryAfter <= 0 {
			t.Errorf("%s: %d passed, then %+v", name, passed, refused)
		}
	}
}

// Every request of a visitor counts against the limits of the visitor and the address, and is never
// refunded. Only runs count against the agent's limit on runs, and only new tokens against its
// limit on tokens.
func TestEveryWidgetRequestCounts(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, Settings{Demo: 1, User: 2, System: 3, Widget: Widget{Visitor: 3, Address: 6, Agent: 2}})
	eager, calm := visitorAt("a", "eager", "192.0.2.1"), visitorAt("a", "calm", "192.0.2.1")
	replay := func(caller domain.Caller) Decision {
		t.Helper()
		d, err := limits.Visitor(t.Context(), caller.Visitor)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := sendMessage(t, limits, eager); !d.Allowed || d.Tier != "widget-agent" || d.Remaining != 1 {
		t.Errorf("a message: %+v", d)
	}
	if _, err := limits.Check(t.Context(), eager); err != nil {
		t.Fatal(err)
	}
	limits.Refund(eager) // the run was not started
	for n, want := range []bool{true, true, false, false} {
		if d := replay(eager); d.Allowed != want || d.Tier != "widget-visitor" {
			t.Errorf("replay %d: %+v", n, d)
		}
	}
	if d := replay(calm); !d.Allowed || d.Tier != "widget-address" || d.Remaining != 0 {
		t.Errorf("an address's sixth request, including refused ones: %+v", d)
	}
	if d := replay(calm); d.Allowed || d.Tier != "widget-address" {
		t.Errorf("an address's seventh request: %+v", d)
	}
	if d, err := limits.WidgetAddress(t.Context(), "192.0.2.1"); err != nil || d.Allowed || d.Tier != "widget-address" {
		t.Errorf("a token beyond the address's limit: %+v, %v", d, err)
	}
	for n, want := range []bool{true, true, false} {
		if d, err := limits.WidgetToken(t.Context(), "a"); err != nil || d.Allowed != want || d.Tier != "widget-tokens" {
			t.Errorf("token %d of the agent: %+v, %v", n, d, err)
		}
	}
	if d := sendMessage(t, limits, visitorAt("a", "later", "192.0.2.2")); !d.Allowed {
		t.Errorf("a message after the token limit was reached: %+v", d)
	}
	for name := range l.tokens {
		if strings.Contains(name, "eager") || strings.Contains(name, "calm") {
			t.Errorf("the bucket %s names a visitor", name)
		}
	}
}

func TestALimitOfZeroDisablesWidgets(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 1, User: 2, System: 3, Widget: Widget{Visitor: 1, Address: 1}})
	d, err := limits.Check(t.Context(), visitorAt("a", "v", "192.0.2.1"))
	if token, tokenErr := limits.WidgetToken(t.Context(), "a"); tokenErr != nil || token.Allowed {
		t.Errorf("a token: %+v, %v", token, tokenErr)
	}
	if seen, _ := limits.Peek(visitorAt("a", "v", "192.0.2.1")); err != nil || d != seen || d.Allowed || d.RetryAfter != time.Minute || d.Limit != 0 {
		t.Errorf("%+v, %+v, %v", d, seen, err)
	}
	for _, w := range []Widget{{Visitor: -1}, {Address: -1}, {Agent: -1}} {
		if _, err := New(newLedger(), Settings{Demo: 1, User: 2, System: 3, Widget: w}); err == nil {
			t.Errorf("%+v was accepted", w)
		}
	}
}
