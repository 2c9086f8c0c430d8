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

// Each of the three limits holds by itself, over several ingresses, and says which one it was.
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
			d, err := through[n%2].Check(t.Context(), c.caller(n))
			if err != nil {
				t.Fatal(err)
			}
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
		// A chunk that another ingress holds may be left over: at most one chunk and a half of each.
		if passed > c.passed || passed < c.passed-2*max(1, c.passed/chunks*3/2) || refused.Tier != c.tier || refused.Limit != c.passed || refused.RetryAfter <= 0 {
			t.Errorf("%s: %d passed, then %+v", name, passed, refused)
		}
	}
}

// What one limit refuses is not counted by the others, and a replay by none.
func TestWidgetRequestsCountWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, Settings{Demo: 1, User: 2, System: 3, Widget: Widget{Visitor: 2, Address: 5, Agent: 5}})
	eager, calm := visitorAt("a", "eager", "192.0.2.1"), visitorAt("a", "calm", "192.0.2.1")
	if passed, _ := passing(t, 50, eager, limits); passed != 2 {
		t.Errorf("%d passed", passed)
	}
	if d, _ := limits.Peek(calm); !d.Allowed || d.Remaining != 2 || d.Tier != "widget-visitor" {
		t.Errorf("the next visitor sees %+v", d)
	}
	for range 50 {
		d, err := limits.Check(t.Context(), calm)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		limits.Refund(calm)
	}
	if passed, _ := passing(t, 50, calm, limits); passed != 2 {
		t.Errorf("%d passed behind refunds", passed)
	}
	for client, want := range map[string]bool{"192.0.2.1": true, "192.0.2.2": true} { // 4 of 5 are used
		if d, err := limits.WidgetAddress(t.Context(), client); err != nil || d.Allowed != want || d.Tier != "widget-address" {
			t.Errorf("%s: %+v, %v", client, d, err)
		}
	}
	if d, err := limits.WidgetAddress(t.Context(), "192.0.2.1"); err != nil || d.Allowed {
		t.Errorf("a token beyond the address's limit: %+v, %v", d, err)
	}
	if d, err := limits.WidgetAgent(t.Context(), "a"); err != nil || !d.Allowed || d.Remaining != 0 {
		t.Errorf("the agent's last: %+v, %v", d, err)
	}
	if d, err := limits.WidgetAgent(t.Context(), "a"); err != nil || d.Allowed || d.Tier != "widget-agent" {
		t.Errorf("beyond the agent's limit: %+v, %v", d, err)
	}
	for name := range l.tokens {
		if strings.Contains(name, "eager") || strings.Contains(name, "calm") {
			t.Errorf("the bucket %s names a visitor", name)
		}
	}
}

func TestNoWidgets(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 1, User: 2, System: 3, Widget: Widget{Visitor: 1, Address: 1}})
	d, err := limits.Check(t.Context(), visitorAt("a", "v", "192.0.2.1"))
	if seen, _ := limits.Peek(visitorAt("a", "v", "192.0.2.1")); err != nil || d != seen || d.Allowed || d.RetryAfter != time.Minute || d.Limit != 0 {
		t.Errorf("%+v, %+v, %v", d, seen, err)
	}
	for _, w := range []Widget{{Visitor: -1}, {Address: -1}, {Agent: -1}} {
		if _, err := New(newLedger(), Settings{Demo: 1, User: 2, System: 3, Widget: w}); err == nil {
			t.Errorf("%+v was taken", w)
		}
	}
}
