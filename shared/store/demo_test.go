package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/store/limitdb"
)

func TestCountDemoIsExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	var wg sync.WaitGroup
	var allowed, refused atomic.Int32
	for range 30 { // concurrent requests, as from many ingresses
		wg.Go(func() {
			v, err := s.Limits.CountDemo(ctx, "192.0.2.1", 10, time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			if !v.Allowed {
				refused.Add(1)
				if v.Remaining != 0 || v.Reset < 50*time.Second || v.Reset > time.Minute {
					t.Errorf("refusal %+v", v)
				}
				return
			}
			allowed.Add(1)
		})
	}
	wg.Wait()
	if allowed.Load() != 10 || refused.Load() != 20 {
		t.Errorf("%d allowed and %d refused, want 10 and 20", allowed.Load(), refused.Load())
	}
	if v, err := s.Limits.CountDemo(ctx, "192.0.2.2", 10, time.Minute); err != nil || !v.Allowed || v.Remaining != 9 {
		t.Errorf("another client: %+v, %v", v, err)
	}
}

func TestCountDemoSlides(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	age := func(by string) {
		_, err := s.SQL().ExecContext(ctx, `UPDATE demo_clients SET hits =
			ARRAY(SELECT h - CAST($1 AS interval) FROM unnest(hits) AS h ORDER BY h)`, by)
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() limitdb.DemoVerdict {
		v, err := s.Limits.CountDemo(ctx, "x", 2, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := count(); !v.Allowed || v.Remaining != 1 {
		t.Errorf("first %+v", v)
	}
	age("40 seconds")
	if v := count(); !v.Allowed || v.Remaining != 0 || v.Reset < 10*time.Second || v.Reset > 20*time.Second {
		t.Errorf("second, 40 s later %+v", v)
	}
	if v := count(); v.Allowed || v.Reset > 20*time.Second {
		t.Errorf("third %+v", v)
	}
	age("21 seconds") // the first request is 61 s old now
	if v := count(); !v.Allowed || v.Remaining != 0 || v.Reset < 30*time.Second {
		t.Errorf("61 s after the first %+v", v)
	}
	if n, err := s.Limits.PruneLimits(ctx, 30*time.Second, 10); err != nil || n != 0 {
		t.Errorf("pruned %d entries, %v, although they were just used", n, err)
	}
	age("31 seconds")
	if n, err := s.Limits.PruneLimits(ctx, 30*time.Second, 10); err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
}

func TestLeaseTokensSharesOneBudget(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	var wg sync.WaitGroup
	var got atomic.Int64
	for range 20 {
		wg.Go(func() {
			g, err := s.Limits.LeaseTokens(ctx, "b", 100, 0, 15)
			if err != nil {
				t.Error(err)
			}
			got.Add(int64(g.Granted))
		})
	}
	wg.Wait()
	if got.Load() != 100 {
		t.Errorf("%d tokens handed out of 100", got.Load())
	}
	if g, err := s.Limits.LeaseTokens(ctx, "small", 3, 0, 15); err != nil || g.Granted != 3 || g.Left != 0 {
		t.Errorf("first lease of a small bucket %+v, %v", g, err)
	}
}

func TestLeaseTokensRefills(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	lease := func(want int) limitdb.TokenGrant {
		g, err := s.Limits.LeaseTokens(ctx, "b", 60, 1, want)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	lease(60)
	if g := lease(10); g.Granted != 0 {
		t.Errorf("empty bucket = %+v", g)
	}
	age := func(by string) {
		if _, err := s.SQL().ExecContext(ctx, `UPDATE rate_buckets SET filled_at = filled_at - CAST($1 AS interval)`, by); err != nil {
			t.Fatal(err)
		}
	}
	age("5 seconds")
	if g := lease(10); g.Granted < 5 || g.Granted > 9 { // includes the tokens gained in the meantime
		t.Errorf("after 5 s %+v", g)
	}
	age("1 hour")
	if g := lease(20); g.Granted != 20 || g.Left != 40 {
		t.Errorf("after an hour %+v: more than the capacity was kept", g)
	}
}
