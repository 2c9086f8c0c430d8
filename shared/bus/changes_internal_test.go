package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/domain"
)

// wire stands for the bus. It records published messages with their times in milliseconds.
type wire struct {
	began time.Time
	mu    sync.Mutex
	sent  []string
	fails bool
	stuck chan struct{} // if not nil, publishing blocks until this channel is closed
}

func (w *wire) publish(subject string) error {
	if w.stuck != nil {
		<-w.stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails {
		return errors.New("no connection")
	}
	w.sent = append(w.sent, fmt.Sprintf("%d %s", time.Since(w.began).Milliseconds(), strings.TrimPrefix(subject, "changes.")))
	return nil
}

func (w *wire) set(fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}

func (w *wire) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.sent) // messages published at the same moment may be in any order
	slices.Sort(want)
	if got := strings.Join(w.sent, ", "); got != strings.Join(want, ", ") {
		t.Errorf("%s: reported %s\nwant %s", what, got, strings.Join(want, ", "))
	}
	w.sent = nil
}

// runChanges starts a value of type changes in a synctest bubble and calls test with it.
func runChanges(t *testing.T, limit int, test func(c *changes, w *wire, connected chan nats.Status)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{began: time.Now()}
		c := newChanges(w.publish)
		c.limit = limit
		connected := make(chan nats.Status, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.run(ctx.Done(), connected); close(ended) }()
		synctest.Wait()
		test(c, w, connected)
		cancel()
		<-ended
	})
}

func pass(d time.Duration) { <-time.After(d) }

func TestChangesArePublishedImmediatelyAndThenCoalesced(t *testing.T) {
	t.Parallel()
	runChanges(t, maxChanges, func(c *changes, w *wire, _ chan nats.Status) {
		a, other := change{domain.ChangedRuns, "org_a"}, change{domain.ChangedDocuments, "org_a"}
		c.markDue(a)
		w.expect(t, "the first", "0 runs.org_a")
		for range 100 {
			c.markDue(a)
		}
		c.markDue(other)
		w.expect(t, "many more", "0 documents.org_a")
		pass(100 * time.Millisecond)
		c.markDue(other)
		c.markDue(change{domain.ChangedRuns, "org_b"})
		w.expect(t, "another organization", "100 runs.org_b")
		pass(149 * time.Millisecond)
		w.expect(t, "within the pace")
		pass(time.Millisecond)
		w.expect(t, "the last of those that came within it", "250 documents.org_a", "250 runs.org_a")
		pass(10 * time.Second)
		w.expect(t, "without news")
		if tracked, dueNow := c.sizes(); tracked != 0 || dueNow != 0 {
			t.Errorf("what is quiet is still known: %d pairs, %d due", tracked, dueNow)
		}
		c.markDue(a)
		w.expect(t, "after a while", "10250 runs.org_a")
	})
}

func TestChangesWithoutEndArePublishedFourTimesASecond(t *testing.T) {
	t.Parallel()
	runChanges(t, maxChanges, func(c *changes, w *wire, _ chan nats.Status) {
		for range 1000 {
			c.markDue(change{domain.ChangedRuns, "org_a"})
			pass(time.Millisecond)
		}
		w.expect(t, "a second of them", "0 runs.org_a", "250 runs.org_a", "500 runs.org_a", "750 runs.org_a", "1000 runs.org_a")
	})
}

// A change that is marked while the previous one is being published is published too,
// after the interval.
func TestAChangeDuringPublicationIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{began: time.Now(), stuck: make(chan struct{})}
		c := newChanges(w.publish)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.run(ctx.Done(), nil); close(ended) }()
		c.markDue(change{domain.ChangedRuns, "org_a"})
		synctest.Wait() // publishing the first change takes time
		for n := range 1000 {
			c.markDue(change{domain.ChangedRuns, "org_a"}) // returns immediately
			c.markDue(change{domain.ChangedRuns, fmt.Sprint("org_", n%3)})
		}
		close(w.stuck)
		w.expect(t, "what waited", "0 runs.org_a", "0 runs.org_0", "0 runs.org_1", "0 runs.org_2")
		pass(changeInterval)
		w.expect(t, "what came meanwhile", "250 runs.org_a")
		cancel()
		<-ended
	})
}

func TestUnsentChangesArePublishedForAll(t *testing.T) {
	t.Parallel()
	runChanges(t, maxChanges, func(c *changes, w *wire, connected chan nats.Status) {
		w.set(true)
		for n := range 100 {
			c.markDue(change{domain.ChangedRuns, fmt.Sprint("org_", n)})
		}
		pass(time.Minute)
		synctest.Wait()
		if tracked, _ := c.sizes(); tracked != 1 {
			t.Errorf("%d things are kept until something gets out", tracked)
		}
		w.set(false)
		pass(changeInterval)
		w.expect(t, "once something gets out", "60250 runs.all")
		connected <- nats.CONNECTED
		w.expect(t, "with a new connection", "60250 documents.all", "60250 notifications.all")
		pass(changeInterval)
		w.expect(t, "with a new connection, a pace later", "60500 runs.all")
	})
}

// sizes returns how many changes are tracked, and how many of them are due immediately.
func (c *changes) sizes() (tracked, dueNow int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tracked), len(c.dueNow)
}

func TestChangesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	runChanges(t, 3, func(c *changes, w *wire, _ chan nats.Status) {
		for n := range 1000 {
			c.markDue(change{domain.ChangedRuns, fmt.Sprint("org_", n)})
			c.markDue(change{domain.ChangedDocuments, fmt.Sprint("org_", n)})
			if tracked, dueNow := c.sizes(); tracked > 5 || dueNow > 5 {
				t.Fatalf("%d pairs, %d due", tracked, dueNow)
			}
		}
		w.expect(t, "more than there is room for", "0 runs.org_0", "0 documents.org_0", "0 runs.org_1", "0 documents.all", "0 runs.all")
	})
}

func TestTheLastChangesArePublishedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{began: time.Now()}
		c := newChanges(w.publish)
		c.markDue(change{domain.ChangedRuns, "org_a"}) // publishing has not started yet
		c.markDue(change{domain.ChangedRuns, "org_b"})
		c.publishAll(c.due(time.Now()))
		c.markDue(change{domain.ChangedRuns, "org_b"})
		c.markDue(change{domain.ChangedDocuments, "org_a"})
		w.expect(t, "at first", "0 runs.org_a", "0 runs.org_b")
		c.rest()
		w.expect(t, "at the end", "0 runs.org_b", "0 documents.org_a")
	})
}

// BenchmarkChanged measures a call to Changed for a run whose organization has many runs.
func BenchmarkChanged(b *testing.B) {
	c := newChanges(func(string) error { return nil })
	go c.run(b.Context().Done(), nil)
	orgs := make([]string, 64)
	for n := range orgs {
		orgs[n] = fmt.Sprintf("org_01k9z8tn5wd7hx4q2y6c8m3s%02d", n)
	}
	for name, of := range map[string][]string{"one organization": orgs[:1], "64 organizations": orgs} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				c.markDue(change{domain.ChangedRuns, of[n%len(of)]})
			}
		})
	}
	b.Run("two cores", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				c.markDue(change{domain.ChangedRuns, orgs[n%len(orgs)]})
			}
		})
	})
}
