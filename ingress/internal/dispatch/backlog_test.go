package dispatch

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
)

// queues stands in for the store. It maps organizations to their numbers of queued runs.
type queues struct {
	mu      sync.Mutex
	runs    map[string]int
	counts  int
	failing bool
}

func (q *queues) count(context.Context, int) (map[string]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts++
	if q.failing {
		return nil, errors.New("no database")
	}
	return maps.Clone(q.runs), nil
}

func (q *queues) set(org string, runs int, failing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs[org], q.failing = runs, failing
}

// offer submits the given number of runs of an organization. The backlog is not counted in the
// meantime. offer returns how many runs were admitted.
func (q *queues) offer(t *testing.T, b *backlog, org string, calls int) (admitted int) {
	t.Helper()
	for range calls {
		err := b.admit(org)
		if err == nil {
			admitted++
			q.mu.Lock()
			q.runs[org]++
			q.mu.Unlock()
			continue
		}
		var coded *apierr.Error
		if !errors.As(err, &coded) || coded.Code != apierr.Overloaded || coded.RetryAfter <= 0 {
			t.Errorf("refused with %v, want overloaded with a retry time", err)
		}
	}
	synctest.Wait()
	return admitted
}

func watching(t *testing.T, share int) (*queues, *backlog) {
	t.Helper()
	q := &queues{runs: map[string]int{}}
	b := newBacklog(q.count, 1000, share)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go b.watch(ctx)
	synctest.Wait()
	return q, b
}

// If one organization fills its share, only the runs of that organization are refused.
func TestOneOrganizationCannotFillTheBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, b := watching(t, 100)
		q.offer(t, b, "flood", 100)
		<-time.After(backlogEvery)
		synctest.Wait()
		if n := q.offer(t, b, "flood", 10_000); n != 0 {
			t.Errorf("%d more runs of an organization with a full share were admitted", n)
		}
		if n := q.offer(t, b, "other", 50); n != 50 {
			t.Errorf("%d of 50 of another organization were admitted", n)
		}
		q.set("flood", 40, false)
		<-time.After(backlogEvery)
		synctest.Wait()
		if n := q.offer(t, b, "flood", 60); n != 60 {
			t.Errorf("%d of 60 runs were admitted once there was room for all", n)
		}
	})
}

// Several organizations that fill their shares together leave room for other organizations.
func TestManyOrganizationsCannotFillTheBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, b := watching(t, 250)
		for range 100 {
			for org := range 8 {
				q.offer(t, b, string(rune('a'+org)), 10)
			}
			<-time.After(backlogEvery)
			synctest.Wait()
		}
		if n := q.offer(t, b, "other", 20); n != 20 {
			t.Errorf("%d of 20 of a ninth organization were admitted", n)
		}
	})
}

// If the backlog might be full, its runs are counted at once, and not only every second.
func TestBacklogIsCountedWhenItMightBeFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, b := watching(t, 10)
		if n := q.offer(t, b, "a", 9); n != 9 || q.counts != 0 {
			t.Errorf("%d of 9 were admitted, %d counts", n, q.counts)
		}
		if n := q.offer(t, b, "a", 2); n != 2 || q.counts != 1 {
			t.Errorf("%d of 2 runs were admitted during the first count, %d counts", n, q.counts)
		}
		if n := q.offer(t, b, "a", 1000); n != 0 || q.counts != 1 {
			t.Errorf("%d were admitted just after the count, %d counts", n, q.counts)
		}
		q.set("a", 2, false)
		<-time.After(backlogLeast)
		synctest.Wait()
		if n := q.offer(t, b, "a", 5); n != 5 || q.counts != 2 {
			t.Errorf("%d of 5 were admitted, %d counts", n, q.counts)
		}
	})
}

// While the count fails, the number of admitted runs of an organization is limited to twice its
// share.
func TestBacklogIsBoundedWhileItCannotBeCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, b := watching(t, 10)
		q.set("a", 0, true)
		total := 0
		for range 5 {
			total += q.offer(t, b, "a", 100)
			<-time.After(backlogEvery)
			synctest.Wait()
		}
		if total != 20 {
			t.Errorf("%d were admitted, want 20", total)
		}
	})
}

// The method mayHave reports whether an organization might have n queued runs. It returns true if
// the sum of the last count and of the runs admitted since then reaches n. It also returns true if
// the count stopped before it had counted all runs.
func TestBacklogReportsWhoMayHaveManyRuns(t *testing.T) {
	t.Parallel()
	q := &queues{runs: map[string]int{"a": 3}}
	b := newBacklog(q.count, 10, 10)
	may := func(org string, n int, want bool) {
		t.Helper()
		if got := b.mayHave(org, n); got != want {
			t.Errorf("mayHave(%q, %d) = %v", org, n, got)
		}
	}

	may("a", 1, true) // nothing is counted yet
	b.recount(t.Context())
	may("a", 3, true)
	may("a", 4, false)
	may("b", 1, false)
	if err := b.admit("a"); err != nil {
		t.Fatal(err)
	}
	may("a", 4, true)
	may("a", 5, false)
	q.set("c", 7, false)
	b.recount(t.Context())
	may("b", 1, true)
}
