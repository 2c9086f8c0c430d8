package ratelimit

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/testkit"
)

var errAway = errors.New("the database is away")

// allowance returns the bound that the package comment states: the maximum number of requests that
// several ingresses together allow within a duration.
func allowance(limit, ingresses int, over time.Duration) int {
	held := max(1, limit/chunks) * 3 / 2
	return limit + int(float64(limit)*over.Seconds()/Window.Seconds()) + ingresses*held
}

// hammer sends n requests concurrently through each of the given limits. It returns the number of
// requests that pass.
func hammer(t *testing.T, n int, caller domain.Caller, through ...*Limits) int {
	t.Helper()
	var passed atomic.Int64
	var wg sync.WaitGroup
	for _, l := range through {
		var asked atomic.Int64
		for range 4 {
			wg.Go(func() {
				for asked.Add(1) <= int64(n) {
					d, err := l.Check(t.Context(), caller)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return int(passed.Load())
}

// settle waits until no request for a lease is in progress, because these requests do not use the
// test's clock.
func settle(through ...*Limits) {
	for _, l := range through {
		for _, t := range []*tier{l.user, l.userTotal, l.system} {
			for _, b := range t.buckets {
				b.mu.Lock()
				over := b.leasing
				b.mu.Unlock()
				if over != nil {
					<-over
				}
			}
		}
	}
}

func TestFourIngressesStayWithinTheBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		caller domain.Caller
		limit  int
	}{
		"user":   {domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}, 300},
		"system": {domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_1"}, 6000},
	} {
		l := newLedger()
		four := []*Limits{ingress(l, defaults), ingress(l, defaults), ingress(l, defaults), ingress(l, defaults)}
		const step = 500 * time.Millisecond
		var passed []int // number of requests that passed in each step
		for range int(3 * Window / step) {
			passed = append(passed, hammer(t, c.limit/4, c.caller, four...))
			settle(four...)
			l.advance(step)
		}
		if passed[0] > c.limit {
			t.Errorf("%s: %d passed in the first step", name, passed[0])
		}
		for width := 1; width <= len(passed); width++ {
			sum := 0
			for i, n := range passed {
				sum += n
				if i >= width {
					sum -= passed[i-width]
				}
				if maximum := allowance(c.limit, 4, time.Duration(width-1)*step); sum > maximum {
					t.Fatalf("%s: %d passed in %v, the bound is %d", name, sum, time.Duration(width)*step, maximum)
				}
			}
		}
		total := 0
		for _, n := range passed {
			total += n
		}
		// A caller that keeps sending requests gets the full rate.
		if want := c.limit * 39 / 10; total < want {
			t.Errorf("%s: %d passed in three minutes, want at least %d", name, total, want)
		}
	}
}

func TestTokensOfALostIngressCostLittle(t *testing.T) {
	t.Parallel()
	const held = 300 / chunks * 3 / 2
	l := newLedger()
	caller := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	for range 3 { // each ingress leases tokens, serves one request and then crashes
		sendRequests(t, 1, caller, ingress(l, defaults))
	}
	alive := ingress(l, defaults)
	got, _ := sendRequests(t, 400, caller, alive)
	if got < 300-3*held || got > 297 {
		t.Errorf("%d passed with three lost leases, want at least %d", got, 300-3*held)
	}
	l.advance(Window / chunks * 3 / 2 * 3) // time in which the bucket gains three times the tokens that one ingress can hold
	if again, _ := sendRequests(t, 400, caller, alive); got+again < 297 {
		t.Errorf("%d and later %d passed: lost tokens starve the others", got, again)
	}
}

func TestRetryAfterIsSufficient(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{
		defaults,
		{Demo: 1, User: 2, System: 3},
		{Demo: 3, User: 6, System: 7},
		{Demo: 7, User: 12, System: 13},
		{Demo: 11, User: 60, System: 61},
		{Demo: 59, User: 120, System: 997},
		{Demo: 10, User: 299, System: 5999},
	} {
		for _, caller := range []domain.Caller{
			{Kind: domain.CallerUser, Credential: "key_1"},
			{Kind: domain.CallerSystem, OrganizationID: "org_1"},
			{Kind: domain.CallerDemo, DemoClient: "192.0.2.1"},
		} {
			l := newLedger()
			two := []*Limits{ingress(l, s), ingress(l, s)}
			for round := range 40 {
				var refused Decision
				for n := 0; refused.Tier == ""; n++ {
					if _, d := sendRequests(t, 1, caller, two[n%2]); !d.Allowed {
						refused = d
					}
					if n > 20_000 {
						t.Fatalf("%+v %s: nothing is refused", s, caller.Kind)
					}
				}
				if refused.Remaining != 0 || refused.Reset <= 0 || refused.RetryAfter < refused.Reset {
					t.Fatalf("refusal %+v", refused)
				}
				wait := time.Duration(math.Ceil(refused.RetryAfter.Seconds())) * time.Second // rounded up, as in the Retry-After header
				settle(two...)
				l.advance(wait)
				if got, d := sendRequests(t, 1, caller, two[round%2]); got != 1 {
					t.Fatalf("%+v %s: refused after waiting %v: %+v, then %+v", s, caller.Kind, wait, refused, d)
				}
				l.advance(time.Duration(round) * 37 * time.Millisecond)
			}
		}
	}
}

func TestPeekConsumesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger()
	limits := ingress(l, Settings{Demo: 2, User: 4, System: 9})
	user := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	peek := func(want Decision) {
		t.Helper()
		if got, ok := limits.Peek(user); !ok || got != want {
			t.Errorf("peeked %+v, %v; want %+v", got, ok, want)
		}
	}
	fresh := Decision{Allowed: true, Tier: "user", Limit: 4, Remaining: 4}
	peek(fresh)
	if l.count() != 0 || len(limits.user.buckets) != 0 {
		t.Errorf("a peek made %d queries and created %d buckets", l.count(), len(limits.user.buckets))
	}
	for left := 3; left >= 0; left-- {
		sendRequests(t, 1, user, limits)
		for range 3 {
			peek(Decision{Allowed: true, Tier: "user", Limit: 4, Remaining: left, Reset: 15 * time.Second})
		}
	}
	_, refused := sendRequests(t, 1, user, limits)
	peek(refused)
	l.advance(5 * time.Second)
	refused.Reset, refused.RetryAfter = 10*time.Second, 10*time.Second
	peek(refused)
	l.advance(2 * Window)
	peek(fresh)
	if d, ok := limits.Peek(domain.Caller{Kind: domain.CallerSystem, OrganizationID: "o"}); !ok || d.Tier != "system" || d.Remaining != 9 {
		t.Errorf("system: %+v, %v", d, ok)
	}
	demo := domain.Caller{Kind: domain.CallerDemo, DemoClient: "x"}
	if d, ok := limits.Peek(demo); ok {
		t.Errorf("demo before a refusal: %+v", d)
	}
	sendRequests(t, 3, demo, limits)
	if d, ok := limits.Peek(demo); !ok || d.Allowed || d.RetryAfter != Window {
		t.Errorf("refused demo: %+v, %v", d, ok)
	}
	if _, ok := limits.Peek(domain.Caller{}); ok {
		t.Error("a caller without a kind has a limit")
	}
}

func TestPeekWhileTheDatabaseIsUnreachable(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.fail(errAway)
	limits := ingress(l, defaults)
	user := domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}
	if _, err := limits.Check(t.Context(), user); err == nil {
		t.Fatal("passed without a count")
	}
	if d, ok := limits.Peek(user); !ok || d.Allowed || d.Remaining != 0 || d.Reset != leasePace {
		t.Errorf("%+v, %v", d, ok)
	}
}

// TestDemoIsExactOverIngressesAndRestarts moves recorded requests into the past instead of waiting.
// It compares the results with its own count. Eight steps of 6.7 s are 6.4 s shorter than the
// window, and nine steps are longer. The results therefore do not change if the test takes up to
// six seconds.
func TestDemoIsExactOverIngressesAndRestarts(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	open := func() *Limits {
		s, err := store.Open(dsn, 4)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		l, err := New(s.Limits, defaults)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	admin, err := store.Open(dsn, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	caller := domain.Caller{Kind: domain.CallerDemo, DemoClient: "2001:db8::/64"}
	var hits []int // step in which each allowed request was sent
	now := 0
	for round, pause := range []int{0, 1, 0, 3, 4, 1, 8, 0, 2, 5, 1, 1, 9, 4, 4, 4} {
		now += pause
		if _, err := admin.SQL().ExecContext(t.Context(), `UPDATE demo_clients SET hits =
			ARRAY(SELECT h - $1 * interval '6.7 seconds' FROM unnest(hits) AS h ORDER BY h)`, pause); err != nil {
			t.Fatal(err)
		}
		want := 10
		for _, at := range hits {
			if now-at <= 8 { // 8 steps are shorter than the window of 60 s, and 9 steps are longer
				want--
			}
		}
		asked := []int{4, 40, 8, 12}[round%4] // numbers of requests that are sent through two new ingresses
		want = min(want, asked)
		if got := hammer(t, asked/2, caller, open(), open()); got != want {
			t.Fatalf("round %d: %d of %d passed, want %d", round, got, asked, want)
		}
		for range want {
			hits = append(hits, now)
		}
	}
}

func TestFourIngressesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	s, err := store.Open(testkit.Postgres(t), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	four := make([]*Limits, 4)
	for i := range four {
		if four[i], err = New(s.Limits, defaults); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	got := hammer(t, 200, domain.Caller{Kind: domain.CallerUser, Credential: "key_1"}, four...)
	gained := int(float64(defaults.User)*time.Since(began).Seconds()/Window.Seconds()) + 1
	if held := 4 * (defaults.User / chunks) * 3 / 2; got > defaults.User+gained || got < defaults.User-held {
		t.Errorf("%d of 800 passed, want 300, up to %d fewer or %d more", got, held, gained)
	}
}

func TestPlenty(t *testing.T) {
	t.Parallel()
	l := newLedger()
	caller := domain.Caller{Kind: domain.CallerSystem, OrganizationID: "org_1"}
	// The ingress leases ten tokens at a time, and leases more when fewer than five are left.
	limits := ingress(l, Settings{Demo: 10, User: 300, System: 200})
	if limits.Plenty(caller) {
		t.Error("there are tokens before the first lease")
	}
	sendRequests(t, 1, caller, limits)
	leases := l.count()
	taken := 0
	for limits.Plenty(caller) {
		sendRequests(t, 1, caller, limits)
		taken++
	}
	if taken < 2 || l.count() != leases {
		t.Errorf("%d were taken, %d leases", taken, l.count()-leases)
	}
	for _, other := range []domain.Caller{{Kind: domain.CallerUser, Credential: "key_1"}, {Kind: domain.CallerDemo, DemoClient: "x"}} {
		sendRequests(t, 1, other, limits)
		if limits.Plenty(other) {
			t.Errorf("%s: Plenty is true", other.Kind)
		}
	}
}
