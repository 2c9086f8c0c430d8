package usage

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/usagedb"
)

func TestUsageReportsAreCached(t *testing.T) {
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
		if _, err := cache.get(gone, usageKey{org, usagedb.UsageFilter{Days: days}}, clock, count); counts != want || (err != nil) != (failure != nil) {
			t.Errorf("counted %d times, want %d: %v", counts, want, err)
		}
	}
	get(1, "a", 7)
	get(1, "a", 7)
	get(2, "a", 8)
	get(3, "b", 7)
	now = now.Add(usageTTL - time.Millisecond)
	get(3, "a", 7)
	now = now.Add(time.Millisecond)
	failure = errors.New("away")
	get(4, "a", 7)
	get(5, "a", 7) // failures are not cached
	failure = nil
	get(6, "a", 7)
	for n := range maxCachedReports {
		get(7+n, "c", n)
	}
	if len(cache.reports) > maxCachedReports {
		t.Errorf("%d counts are remembered", len(cache.reports))
	}
}

func TestConcurrentRequestsShareAUsageReport(t *testing.T) {
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
