package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit/running"
)

// fakeBus is a bus controlled by the test.
type fakeBus struct {
	mu     sync.Mutex
	follow []string // calls of Follow (+) and Unfollow (-), in order
	away   bool
	err    error
	f      func(bus.Change)
}

func (l *fakeBus) asked(what, org string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow = append(l.follow, what+org)
}

func (l *fakeBus) Follow(org string) error {
	l.asked("+", org)
	return l.err
}

func (l *fakeBus) Unfollow(org string) { l.asked("-", org) }

func (l *fakeBus) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *fakeBus) Connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.away
}

func (l *fakeBus) Run(ctx context.Context, f func(bus.Change)) {
	l.f = f
	<-ctx.Done()
}

func (l *fakeBus) set(away bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.err = away, err
}

// testHub is a hub and its bus, in a test with fake time.
type testHub struct {
	*testing.T
	*Hub
	*fakeBus
}

func watching(t *testing.T, test func(b testHub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &fakeBus{}
		h := New(l, zerolog.Nop())
		running.Start(t, h.Run)
		synctest.Wait()
		test(testHub{t, h, l})
	})
}

// log returns the kinds of changes that a watcher receives within d, each preceded by the time at
// which it arrives, in milliseconds.
func (w *Watcher) log(t testHub, d time.Duration) string {
	t.Helper()
	var out []string
	began := time.Now()
	for until := began.Add(d); time.Now().Before(until); {
		due, err := w.Next(t.Context(), until)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range due {
			out = append(out, fmt.Sprintf("%d %s", time.Since(began).Milliseconds(), kind))
		}
	}
	return strings.Join(out, ", ")
}

func TestChangesAreCoalescedAndTheLastIsDelivered(t *testing.T) {
	t.Parallel()
	watching(t, func(t testHub) {
		w := t.Watch(t.Context(), "org_a")
		defer w.Close()
		due := make(chan string)
		go func() { due <- w.log(t, 10*time.Second) }()
		for range 13 { // one change every 100 ms, for 1.3 s
			t.f(bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
			<-time.After(100 * time.Millisecond)
		}
		t.f(bus.Change{OrganizationID: "org_a", Kind: domain.ChangedDocuments})
		want := "0 runs, 500 runs, 1000 runs, 1300 documents, 1500 runs"
		if got := <-due; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestWatchersReceiveOnlyChangesOfTheirOrganization(t *testing.T) {
	t.Parallel()
	watching(t, func(t testHub) {
		a, also, b := t.Watch(t.Context(), "org_a"), t.Watch(t.Context(), "org_a"), t.Watch(t.Context(), "org_b")
		t.f(bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
		t.f(bus.Change{OrganizationID: "org_c", Kind: domain.ChangedRuns})
		t.f(bus.Change{OrganizationID: "org_b", Kind: "a kind of later releases"})
		for name, c := range map[string]struct {
			w    *Watcher
			want string
		}{"a": {a, "0 runs"}, "another of a's": {also, "0 runs"}, "b": {b, ""}} {
			if got := c.w.log(t, time.Second); got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
		t.f(bus.Change{Kind: domain.ChangedDocuments}) // without an organization, the change concerns all organizations
		t.f(bus.Change{OrganizationID: "org_b"})       // without a kind, the change concerns all kinds
		if got := a.log(t, time.Second); got != "0 documents" {
			t.Errorf("a change of an unknown organization = %q", got)
		}
		if got := b.log(t, time.Second); got != "0 runs, 0 documents, 0 notifications" {
			t.Errorf("a change of an unknown kind = %q", got)
		}
		a.Close()
		a.Close()
		t.f(bus.Change{})
		also.Close()
		b.Close()
		if got := strings.Join(t.follow, " "); got != "+org_a +org_a +org_b -org_a -org_b" || len(t.watchers) != 0 {
			t.Errorf("subscriptions: %s; %d organizations are watched", got, len(t.watchers))
		}
	})
}

// While the bus cannot deliver changes, watchers periodically receive all kinds.
func TestADisconnectedWatcherReceivesAllKindsPeriodically(t *testing.T) {
	t.Parallel()
	watching(t, func(t testHub) {
		t.set(false, errors.New("no answer"))
		w := t.Watch(t.Context(), "org_a")
		defer w.Close()
		var due []string
		step := func() {
			if got := w.log(t, 2*time.Second); got != "" {
				due = append(due, got)
			}
		}
		for range 3 { // 6 s in which the subscription is not confirmed
			step()
		}
		if got := strings.Join(due, "; "); got != "2000 runs, 2000 documents, 2000 notifications" {
			t.Errorf("without a confirmed subscription, the watcher received %s", got)
		}
		t.set(false, nil)
		for range 3 {
			step()
		}
		if len(due) != 2 || !w.sure {
			t.Errorf("after the confirmation, the watcher received %s", due)
		}
		for range 10 {
			step()
		}
		if len(due) != 2 {
			t.Errorf("while connected, the watcher received %s", due)
		}
		t.set(true, nil)
		for range 10 {
			step()
		}
		if n := len(due) - 2; n < 3 || n > 5 {
			t.Errorf("in 20 s without a connection, the watcher was notified %d times", n)
		}
	})
}

func TestWatchersEndWithTheirHubAndTheirContext(t *testing.T) {
	t.Parallel()
	watching(t, func(t testHub) {
		w := t.Watch(t.Context(), "org_a")
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Next(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next ended with %v after its context", err)
		}
		time.AfterFunc(time.Second, t.Drain)
		began := time.Now()
		if _, err := w.Next(t.Context(), began.Add(time.Hour)); !errors.Is(err, ErrDrained) || time.Since(began) != time.Second {
			t.Errorf("a drained watcher ended with %v after %s", err, time.Since(began))
		}
		t.Drain()
		late := t.Watch(t.Context(), "org_b")
		defer late.Close()
		if _, err := late.Next(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, ErrDrained) {
			t.Errorf("a late watcher ended with %v", err)
		}
	})
}

func TestEveryKindHasAMark(t *testing.T) {
	t.Parallel()
	if len(domain.ChangeKinds) != kinds {
		t.Fatalf("%d kinds, but marks for %d", len(domain.ChangeKinds), kinds)
	}
	for _, kind := range domain.ChangeKinds {
		if markFor(kind) == 0 {
			t.Errorf("%s has no mark", kind)
		}
	}
}
