package ratelimit

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/store/limitdb"
	"parley/shared/testkit"
)

// ledger is a Counter in memory, whose clock the test advances.
type ledger struct {
	mu      sync.Mutex
	clock   time.Time
	hits    map[string][]time.Time
	tokens  map[string]float64
	filled  map[string]time.Time
	queries int
	err     error
}

func newLedger() *ledger {
	return &ledger{
		clock: time.Now(), hits: map[string][]time.Time{}, tokens: map[string]float64{}, filled: map[string]time.Time{},
	}
}

func (l *ledger) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock
}

func (l *ledger) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock = l.clock.Add(d)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queries
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *ledger) CountDemo(_ context.Context, address string, limit int, window time.Duration) (limitdb.DemoVerdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	if l.err != nil {
		return limitdb.DemoVerdict{}, l.err
	}
	hits := l.hits[address]
	for len(hits) > 0 && !hits[0].After(l.clock.Add(-window)) {
		hits = hits[1:]
	}
	allowed := len(hits) < limit
	if allowed {
		hits = append(hits, l.clock)
	}
	l.hits[address] = hits
	return limitdb.DemoVerdict{Allowed: allowed, Remaining: limit - len(hits), Reset: hits[0].Add(window).Sub(l.clock)}, nil
}

func (l *ledger) LeaseTokens(_ context.Context, bucket string, capacity int, perSecond float64, want int) (limitdb.TokenGrant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	if l.err != nil {
		return limitdb.TokenGrant{}, l.err
	}
	have := float64(capacity)
	if filled, ok := l.filled[bucket]; ok {
		have = min(have, l.tokens[bucket]+perSecond*l.clock.Sub(filled).Seconds())
	}
	granted := min(int(math.Floor(have)), want)
	l.tokens[bucket], l.filled[bucket] = have-float64(granted), l.clock
	return limitdb.TokenGrant{Granted: granted, Left: l.tokens[bucket]}, nil
}

// ingress returns the limits of one process that counts in the ledger.
func ingress(l *ledger, s Settings) *Limits {
	return over(l, s, l.now)
}

var defaults = Settings{Demo: 10, User: 300, System: 6000}

// sendRequests sends n requests one after the other, through each of the limits in turn. It returns
// the number of requests that pass.
func sendRequests(t *testing.T, n int, caller domain.Caller, through ...*Limits) (passed int, last Decision) {
	t.Helper()
	for i := range n {
		d, err := through[i%len(through)].Check(t.Context(), caller)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
		last = d
	}
	return passed, last
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		Settings
		ok bool
	}{
		{defaults, true},
		{Settings{Demo: 1, User: 2, System: 3}, true},
		{Settings{Demo: 0, User: 2, System: 3}, false},
		{Settings{Demo: 10, User: 10, System: 6000}, false},
		{Settings{Demo: 10, User: 300, System: 300}, false},
		{Settings{Demo: 300, User: 10, System: 6000}, false},
	} {
		if _, err := New(newLedger(), c.Settings); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.Settings, err)
		}
	}
}

func TestTiersShareOneLimitOverIngresses(t *testing.T) {
	t.Parallel()
	callers := map[string]domain.Caller{
		"user":   {Kind: domain.CallerUser, Credential: "key_1"},
		"system": {Kind: domain.CallerSystem, OrganizationID: "org_1", Credential: "key_1"},
		"demo":   {Kind: domain.CallerDemo, DemoClient: "192.0.2.1"},
	}
	for _, s := range []Settings{defaults, {Demo: 2, User: 5, System: 9}} {
		want := map[string]int{"user": s.User, "system": s.System, "demo": s.Demo}
		for tier, caller := range callers {
			l := newLedger()
			a, b := ingress(l, s), ingress(l, s)
			got, last := sendRequests(t, want[tier]+700, caller, a, b)
			if got != want[tier] {
				t.Errorf("%s of %d: %d passed", tier, want[tier], got)
			}
			if last.Allowed || last.Tier != tier || last.Limit != want[tier] || last.Remaining != 0 || last.RetryAfter <= 0 {
				t.Errorf("%s: refusal %+v", tier, last)
			}
			if tier != "demo" && l.count() > 60 && s == defaults {
				t.Errorf("%s: %d queries for %d requests", tier, l.count(), want[tier])
			}
		}
	}
}

func TestTiersRefill(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, defaults)
	caller := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	sendRequests(t, 301, caller, limits)
	l.advance(10 * time.Second) // the buckets gain 50 tokens
	if got, _ := sendRequests(t, 100, caller, limits); got != 50 {
		t.Errorf("%d passed after 10 s, want 50", got)
	}
	l.advance(10 * time.Minute)
	if got, _ := sendRequests(t, 400, caller, limits); got != 300 {
		t.Errorf("%d passed after 10 min, want 300", got)
	}
	other := domain.Caller{Kind: domain.CallerUser, Credential: "key_2"}
	if got, _ := sendRequests(t, 10, other, limits); got != 10 {
		t.Errorf("another credential: %d passed", got)
	}
}

func TestRemainingCountsDown(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 2, User: 4, System: 9})
	caller := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	for want := 3; want >= 0; want-- {
		if _, d := sendRequests(t, 1, caller, limits); !d.Allowed || d.Remaining != want || d.Reset <= 0 {
			t.Errorf("got %+v, want %d remaining", d, want)
		}
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	limits := ingress(newLedger(), Settings{Demo: 2, User: 4, System: 9})
	for _, c := range []struct {
		caller domain.Caller
		want   int
	}{
		{domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}, 4},
		{domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_1"}, 9},
	} {
		for range 50 { // the service refunds replays in this way
			if got, _ := sendRequests(t, 1, c.caller, limits); got != 1 {
				t.Fatal("a refunded request was refused")
			}
			limits.Refund(c.caller)
		}
		if got, _ := sendRequests(t, 20, c.caller, limits); got != c.want {
			t.Errorf("%s: %d passed, want %d", c.caller.Kind, got, c.want)
		}
	}
	demo := domain.Caller{Kind: domain.CallerDemo, DemoClient: "x"}
	got := 0
	for range 5 {
		n, _ := sendRequests(t, 1, demo, limits)
		got += n
		limits.Refund(demo)
	}
	if got != 2 {
		t.Errorf("demo: %d passed, want 2", got)
	}
}

func TestDemoRefusalsAreRemembered(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, defaults)
	caller := domain.Caller{Kind: domain.CallerDemo, DemoClient: "192.0.2.1"}
	sendRequests(t, 11, caller, limits)
	before := l.count()
	if got, last := sendRequests(t, 50, caller, limits); got != 0 || last.RetryAfter != Window {
		t.Errorf("%d passed, last %+v", got, last)
	}
	if l.count() != before {
		t.Errorf("%d queries for remembered refusals", l.count()-before)
	}
	l.advance(Window)
	if got, _ := sendRequests(t, 11, caller, limits); got != 10 {
		t.Errorf("%d passed a minute later", got)
	}
}

func TestLimitsFailClosed(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.fail(context.DeadlineExceeded)
	limits := ingress(l, defaults)
	for _, caller := range []domain.Caller{
		{Kind: domain.CallerUser, Credential: "key_1"},
		{Kind: domain.CallerSystem, OrganizationID: "org_1"},
		{Kind: domain.CallerDemo, DemoClient: "192.0.2.1"},
	} {
		var coded *apierr.Error
		for range 2 {
			d, err := limits.Check(t.Context(), caller)
			if !errors.As(err, &coded) || coded.Code != apierr.Unavailable || d.Allowed {
				t.Errorf("%s: %+v, %v", caller.Kind, d, err)
			}
		}
		l.fail(nil)
		l.advance(time.Second)
		if got, _ := sendRequests(t, 1, caller, limits); got != 1 {
			t.Errorf("%s: still refused after the database recovered", caller.Kind)
		}
		l.fail(context.DeadlineExceeded)
	}
}

func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	l := newLedger()
	a, b := ingress(l, defaults), ingress(l, defaults)
	caller := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	var wg sync.WaitGroup
	var passed atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				d, err := []*Limits{a, b}[i%2].Check(t.Context(), caller)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// The other ingress may hold tokens that this ingress cannot use.
	if n := passed.Load(); n > 300 || n < 300-2*300/chunks {
		t.Errorf("%d passed", n)
	}
}

func TestIdleBucketsAreDropped(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, defaults)
	limits.user.sweepAt = 2
	for _, key := range []string{"a", "b"} {
		sendRequests(t, 1, domain.Caller{Kind: domain.CallerUser, Credential: key}, limits)
	}
	l.advance(2 * Window)
	sendRequests(t, 1, domain.Caller{Kind: domain.CallerUser, Credential: "c"}, limits)
	if n := len(limits.user.buckets); n != 1 {
		t.Errorf("%d buckets, want the one in use", n)
	}
}

func TestLimitsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	s, err := store.Open(testkit.Postgres(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	settings := Settings{Demo: 3, User: 5, System: 7}
	a, err := New(s.Limits, settings)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(s.Limits, settings) // another ingress, or the same ingress after a restart
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		caller domain.Caller
		want   int
	}{
		{domain.Caller{Kind: domain.CallerDemo, DemoClient: "2001:db8::/64"}, 3},
		{domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}, 5},
		{domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_1"}, 7},
	} {
		if got, last := sendRequests(t, 12, c.caller, a, b); got != c.want || last.Allowed || last.RetryAfter <= 0 {
			t.Errorf("%s: %d passed, want %d; last %+v", c.caller.Kind, got, c.want, last)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	limits := ingress(newLedger(), Settings{Demo: 10, User: 300, System: math.MaxInt32})
	caller := domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_00000000000000000000000001"}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := limits.Check(b.Context(), caller); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkPeek(b *testing.B) {
	limits := ingress(newLedger(), Settings{Demo: 10, User: 300, System: math.MaxInt32})
	caller := domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_00000000000000000000000001"}
	if _, err := limits.Check(b.Context(), caller); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, ok := limits.Peek(caller); !ok || !d.Allowed {
			b.Fatal(d)
		}
	}
}
