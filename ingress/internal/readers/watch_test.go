package readers

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/rundb"
	"parley/shared/testkit/running"
)

// fakeBus delivers messages to all ingresses, except while it is down.
type fakeBus struct {
	mu    sync.Mutex
	hears []func([]byte)
	down  bool
}

func (b *fakeBus) PublishReaders(body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("the bus is down")
	}
	for _, hear := range b.hears {
		go hear(body)
	}
	return nil
}

func (b *fakeBus) OnReaders(f func([]byte)) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hears = append(b.hears, f)
	return func() {}, nil
}

func (b *fakeBus) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// ingress is a Watch together with its runs.
type ingress struct {
	*Watch

	mu        sync.Mutex
	read      map[string]bool
	parked    map[string]bool
	fails     int // number of further cancellations that fail
	cancelled []string
	shown     map[string]string
}

func (i *ingress) Working(_ context.Context, _, runID string) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.parked[runID], nil
}

// Cancel records the time of the cancellation, in seconds.
func (i *ingress) Cancel(_ context.Context, _, runID string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fails > 0 {
		i.fails--
		return errors.New("away")
	}
	i.cancelled = append(i.cancelled, runID)
	return nil
}

func (i *ingress) SaveShown(_ context.Context, _, runID, text string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shown[runID] = text
	return nil
}

func (i *ingress) reading(runID string, now bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.read[runID] = now
}

// took returns the runs that were cancelled so far.
func (i *ingress) took() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.cancelled)
}

func newIngress(t *testing.T, name string, b *fakeBus) *ingress {
	t.Helper()
	i := &ingress{read: map[string]bool{}, parked: map[string]bool{}, shown: map[string]string{}}
	i.Watch = New(name, b, i, func(runID string) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.read[runID]
	}, zerolog.Nop())
	running.Start(t, i.Run)
	synctest.Wait()
	return i
}

// stored returns an unfinished run of a session.
func stored(runID, session string) *rundb.StoredRun { return storedFor("org_1", runID, session) }

func storedFor(org, runID, session string) *rundb.StoredRun {
	agent := "ag_1"
	return &rundb.StoredRun{OrganizationID: org, Principal: "usr_1", Run: domain.Run{ID: runID, AgentID: &agent, SessionID: session, Status: domain.RunRunning}}
}

// leave simulates a request that starts a run and whose client then leaves.
func (i *ingress) leave(runID string, rules Rules) {
	ctx, cancel := context.WithCancel(context.Background())
	r := i.Begin(stored(runID, "s"), rules)
	cancel()
	r.End(ctx)
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestARunIsCancelledOnlyIfNoIngressReadsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here, there := newIngress(t, "here", b), newIngress(t, "there", b)
		there.reading("run_1", true)
		here.parked["run_4"] = true
		for _, runID := range []string{"run_1", "run_2", "run_4"} {
			here.leave(runID, Rules{Grace: Grace})
		}
		here.leave("run_3", Rules{Keep: true})
		after(Grace - time.Second)
		if got := here.took(); len(got) != 0 {
			t.Errorf("cancelled before the end of the grace period: %v", got)
		}
		after(2 * time.Second)
		if got := here.took(); !slices.Equal(got, []string{"run_2"}) {
			t.Errorf("cancelled %v", got)
		}
		after(10 * Grace)
		there.reading("run_1", false)
		after(Grace - 2*time.Second)
		if got := here.took(); len(got) != 1 {
			t.Errorf("cancelled while it was read, or soon after: %v", got)
		}
		after(3 * time.Second)
		if got := here.took(); !slices.Equal(got, []string{"run_2", "run_1"}) {
			t.Errorf("cancelled %v", got)
		}
		if got := there.took(); len(got) != 0 {
			t.Errorf("the other ingress cancelled %v", got)
		}
		here.mu.Lock()
		defer here.mu.Unlock()
		if len(here.left) != 0 {
			t.Errorf("still watched: %v", here.left)
		}
	})
}

// Without the bus, another ingress could not report that it reads the run, so no run is cancelled.
func TestNoRunIsCancelledWithoutTheBus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here := newIngress(t, "here", b)
		b.set(true)
		here.leave("run_1", Rules{Grace: 0})
		after(10 * Grace)
		if got := here.took(); len(got) != 0 {
			t.Errorf("cancelled %v", got)
		}
		b.set(false)
		after(2 * time.Second)
		if got := here.took(); len(got) != 1 {
			t.Errorf("cancelled %v", got)
		}
	})
}

func TestAFailedCancellationIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := newIngress(t, "here", &fakeBus{})
		here.fails = 3
		here.leave("run_1", Rules{Grace: Grace})
		after(Grace + 10*time.Second)
		if got := here.took(); len(got) != 1 {
			t.Errorf("cancelled %v", got)
		}
	})
}

// A run whose reader returns is no longer watched.
func TestAReaderComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := newIngress(t, "here", &fakeBus{})
		here.leave("run_1", Rules{Grace: Grace})
		after(Grace - time.Second)
		here.Begin(stored("run_1", "s"), Rules{Grace: Grace})
		after(10 * Grace)
		if got := here.took(); len(got) != 0 {
			t.Errorf("cancelled %v", got)
		}
	})
}

// Only the runs for which the next message waits are cancelled at once. These are all earlier runs
// of the session, or only the run that the message continues. Runs of other branches keep their
// grace period.
func TestTheNextMessageEndsEarlierRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here, there := newIngress(t, "here", b), newIngress(t, "there", b)
		here.leave("run_1", Rules{Grace: Grace})
		here.leave("run_3", Rules{Grace: Grace})
		there.Next("org_1", RunFor(stored("run_2", "s")).Session, "run_2", "")
		there.Next("org_1", RunFor(stored("run_9", "other")).Session, "run_9", "")
		after(time.Second)
		if got := here.took(); !slices.Equal(got, []string{"run_1"}) {
			t.Errorf("cancelled %v", got)
		}

		here.leave("run_4", Rules{Grace: Grace})
		there.Next("org_1", RunFor(stored("run_5", "s")).Session, "run_5", "run_3")
		here.leave("run_0", Rules{Grace: Grace}) // the message of run_2 waits for run_0, but the message of run_5 does not
		after(time.Second)
		if got := slices.Sorted(slices.Values(here.took())); !slices.Equal(got, []string{"run_0", "run_1", "run_3"}) {
			t.Errorf("cancelled %v, want also the run that run_5 continues and an earlier one", got)
		}
	})
}

// events is a source of events that returns one batch at each call.
type events [][]domain.Event

func (e *events) Next(context.Context, time.Time) ([]domain.Event, error) {
	next := (*e)[0]
	*e = (*e)[1:]
	return next, nil
}

func delta(text string) domain.Event {
	return domain.Event{Type: domain.EventMessageDelta, Data: []byte(`{"text":` + strconv.Quote(text) + `}`)}
}

// The session's history contains the text that was sent, without the batch of events during which
// the client left.
func TestTheShownTextIsStored(t *testing.T) {
	t.Parallel()
	restarted := domain.Event{Type: domain.EventRunRestarted, Data: []byte("{}")}
	cancelled := domain.Event{Type: domain.EventRunCancelled, Data: []byte("{}")}
	for name, tc := range map[string]struct {
		events events
		left   bool
		rules  Rules
		want   string
		stored bool
	}{
		"left":            {events{{delta("a")}, {delta("b"), delta("c")}, {delta("d")}}, true, Rules{Shows: true}, "abc", true},
		"another attempt": {events{{delta("ab")}, {restarted, delta("a")}, {delta("bc")}, {}}, true, Rules{Shows: true}, "abc", true},
		"cancelled":       {events{{delta("a")}, {delta("b"), cancelled}}, false, Rules{Shows: true, Keep: true}, "ab", true},
		"both":            {events{{delta("a")}, {delta("b"), cancelled}}, true, Rules{Shows: true, Keep: true}, "a", true},
		"both, later":     {events{{delta("a")}, {delta("b"), cancelled}, {}}, true, Rules{Shows: true, Keep: true}, "ab", true},
		"nothing yet":     {events{{}}, true, Rules{Shows: true}, "", true},
		"not shown":       {events{{delta("a")}, {}}, true, Rules{}, "", false},
		"kept":            {events{{delta("a")}, {}}, true, Rules{Shows: true, Keep: true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				here := newIngress(t, "here", &fakeBus{})
				ctx, cancel := context.WithCancel(t.Context())
				r := here.Begin(stored("run_1", "s"), tc.rules).Follow(&tc.events)
				for range len(tc.events) {
					if _, err := r.Next(ctx, time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				if tc.left {
					cancel()
				}
				r.End(ctx)
				cancel()
				after(2 * time.Second)
				if text, ok := here.shown["run_1"]; text != tc.want || ok != tc.stored {
					t.Errorf("stored %v: %q", ok, text)
				}
			})
		})
	}
}

// The text of a cancelled run is stored before its client learns of the cancellation.
func TestTheShownTextIsStoredFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := newIngress(t, "here", &fakeBus{})
		cancelled := events{{delta("a")}, {delta("b"), {Type: domain.EventRunCancelled, Data: []byte("{}")}}}
		r := here.Begin(stored("run_1", "s"), Rules{Shows: true, Keep: true}).Follow(&cancelled)
		for range 2 {
			if _, err := r.Next(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if text := here.shown["run_1"]; text != "ab" {
			t.Errorf("before the last events are sent, %q is stored", text)
		}
	})
}

// The number of remembered attempts and the time for which they are remembered are limited.
func TestAttemptsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m memory[int]
		for n := range 3 * maxRemembered {
			m.add("org_1", strconv.Itoa(n), n)
		}
		if m.size > maxRemembered || len(m.values) != m.size {
			t.Errorf("%d values of %d keys", m.size, len(m.values))
		}
		m.add("org_1", "a", 1)
		m.add("org_1", "a", 2)
		after(rememberFor / 2)
		m.add("org_1", "a", 3)
		after(rememberFor/2 + time.Second)
		if got := m.get("a"); !slices.Equal(got, []int{3}) {
			t.Errorf("%v", got)
		}
		m.remove("a", func(n int) bool { return n == 3 })
		after(rememberFor)
		m.add("org_1", "b", 1)
		if len(m.values) != 1 || m.size != 1 {
			t.Errorf("%d values of %d keys", m.size, len(m.values))
		}
	})
}

func TestARetryTakesTheLatestAttemptOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here, there := newIngress(t, "here", b), newIngress(t, "there", b)
		for n, runID := range []string{"run_1", "run_2", "run_3"} {
			here.leave(runID, Rules{Grace: Grace, Attempt: Attempt{Request: "r", Number: n}})
		}
		synctest.Wait()
		for _, tc := range []struct {
			at     *ingress
			number int
			want   string
		}{{there, 0, ""}, {there, 2, "run_2"}, {here, 2, "run_1"}, {there, 2, ""}, {here, 3, "run_3"}} {
			if _, got, _ := tc.at.Earlier(Attempt{Request: "r", Number: tc.number}); got != tc.want {
				t.Errorf("retry %d got %q, not %q", tc.number, got, tc.want)
			}
			synctest.Wait()
		}
		if _, got, ok := here.Earlier(Attempt{Request: "other", Number: 1}); ok {
			t.Errorf("another request got %q", got)
		}
	})
}

// A request starts a run, and its client leaves. Another client reads the run at another ingress
// and leaves, too. The run is cancelled, and its history gets the text that the second client has
// shown.
func TestTheTextOfAResumedReadingCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here, there := newIngress(t, "here", b), newIngress(t, "there", b)
		there.reading("run_7", true)
		here.leave("run_7", Rules{Grace: Grace, Shows: true})
		ctx, cancel := context.WithCancel(t.Context())
		resumed := there.Resume(stored("run_7", "s")).Follow(texts{"Once ", "upon"})
		for range 2 {
			if _, err := resumed.Next(ctx, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		resumed.End(ctx)
		there.reading("run_7", false)
		after(2 * Grace)
		here.mu.Lock()
		defer here.mu.Unlock()
		if len(here.cancelled) != 1 || here.shown["run_7"] != "Once upon" {
			t.Errorf("cancelled %v, shown %q", here.cancelled, here.shown)
		}
	})
}

// texts is a source of events that returns the given texts at the first call, and nothing
// afterwards.
type texts []string

func (s texts) Next(context.Context, time.Time) (out []domain.Event, err error) {
	for _, text := range s {
		out = append(out, domain.Event{Type: domain.EventMessageDelta, Data: []byte(`{"text":"` + text + `"}`)})
	}
	clear(s)
	return out, nil
}

// While the bus is unreachable, the number of watched runs is limited.
func TestTheWatchedRunsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBus{}
		here := newIngress(t, "here", b)
		b.set(true)
		for n := range maxLeft + 10 {
			here.leave("run_"+strconv.Itoa(n), Rules{Grace: Grace})
		}
		large := strings.Repeat("x", 1<<20)
		here.Watch.mu.Lock()
		watched := len(here.left)
		for id := range here.left {
			here.remove(id)
		}
		here.Watch.mu.Unlock()
		if watched != maxLeft {
			t.Errorf("%d runs are watched", watched)
		}
		for n := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			r := here.Begin(stored("large_"+strconv.Itoa(n), "s"), Rules{Grace: Grace, Shows: true}).Follow(texts{large})
			for range 2 {
				_, _ = r.Next(ctx, time.Time{})
			}
			cancel()
			r.End(ctx)
		}
		here.Watch.mu.Lock()
		defer here.Watch.mu.Unlock()
		if len(here.left) != maxLeftBytes>>20 || here.bytes != maxLeftBytes {
			t.Errorf("%d runs with %d bytes are watched", len(here.left), here.bytes)
		}
		clear(here.left)
	})
}
