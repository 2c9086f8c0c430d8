package httpapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store"
)

func TestUsageIsTheOrganizations(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	h, away := a.newHouse("home"), a.newHouse("away")
	one, other := a.newAgent(h), a.newAgent(h)
	a.finish("answer", a.newChat(h, one, "s", h.member.auth, h.header))
	a.newChat(h, other, "s", h.key)
	a.newChat(away, a.newAgent(away), "s", away.key)
	for query, want := range map[string][4]float64{ // intervals, runs, completed, failed
		"":                          {7, 2, 1, 0},
		"?days=1":                   {24, 2, 1, 0},
		"?days=2&agentId=" + one:    {48, 1, 1, 0},
		"?days=90&agentId=" + other: {90, 1, 0, 0},
	} {
		got := a.ok("GET", "/api/usage"+query, "", h.admin.auth, h.header)
		data, _ := got.json(t, "data").([]any)
		last, _ := data[len(data)-1].(map[string]any)
		if float64(len(data)) != want[0] || got.json(t, "totals.runs") != want[1] || got.json(t, "totals.completed") != want[2] ||
			got.json(t, "totals.failed") != want[3] || last["runs"] != want[1] {
			t.Errorf("%s: %d intervals, %s", query, len(data), got.body)
		}
		if ended := got.json(t, "totals.p50Ms") != nil; ended != (want[2] > 0) {
			t.Errorf("%s: p50 %v", query, got.json(t, "totals.p50Ms"))
		}
	}
	if got := a.ok("GET", "/api/usage", "", away.admin.auth, away.header); got.json(t, "totals.runs") != 1.0 || got.json(t, "totals.completed") != 0.0 {
		t.Errorf("another organization, just behind this one: %s", got.body)
	}
	for query, problems := range map[string]string{
		"days=0": "days:invalid_value", "days=91": "days:invalid_value", "days=-1": "days:invalid_value", "days=": "days:invalid_value",
		"days=07": "days:invalid_value", "days=1.5": "days:invalid_value", "days=1&days=1": "days:duplicate",
		"days=x": "days:invalid_value", "agentId=a&agentId=b": "agentId:duplicate",
	} {
		a.from("GET", "/api/usage?"+query, "", h.key).want(t, query, 400, "invalid_request "+problems)
	}
}

func TestUsageIsCountedNowAndThen(t *testing.T) {
	t.Parallel()
	cache, counts, now := &usageCache{}, 0, time.Unix(1000, 0)
	clock := func() time.Time { return now }
	var failure error
	count := func(ctx context.Context, at time.Time) (domain.UsageReport, error) {
		counts++
		return domain.UsageReport{To: domain.At(at)}, errors.Join(failure, ctx.Err())
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	get := func(want int, org string, days int) {
		t.Helper()
		if _, err := cache.get(gone, usageKey{org, store.UsageFilter{Days: days}}, clock, count); counts != want || (err != nil) != (failure != nil) {
			t.Errorf("counted %d times, want %d: %v", counts, want, err)
		}
	}
	get(1, "a", 7)
	get(1, "a", 7)
	get(2, "a", 8)
	get(3, "b", 7)
	now = now.Add(usageKept - time.Millisecond)
	get(3, "a", 7)
	now = now.Add(time.Millisecond)
	failure = errors.New("away")
	get(4, "a", 7)
	get(5, "a", 7) // what failed is not remembered
	failure = nil
	get(6, "a", 7)
	for n := range usageMost {
		get(7+n, "c", n)
	}
	if len(cache.kept) > usageMost {
		t.Errorf("%d counts are remembered", len(cache.kept))
	}
}

func TestUsageIsCountedOnceForAll(t *testing.T) {
	t.Parallel()
	var cache usageCache
	counting, counts, release := make(chan struct{}), 0, make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			report, err := cache.get(t.Context(), usageKey{org: "a"}, time.Now, func(context.Context, time.Time) (domain.UsageReport, error) {
				if counts++; counts == 1 {
					close(counting)
				}
				<-release
				return domain.UsageReport{Interval: strings.Repeat("x", counts)}, nil
			})
			if err != nil || report.Interval != "x" {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
	<-counting
	close(release)
	all.Wait()
}
