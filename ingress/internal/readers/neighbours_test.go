package readers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// leaveFor works like leave for a run of the given organization. The argument shown is the text
// that the client has shown.
func (i *ingress) leaveFor(org, runID, shown string) {
	ctx, cancel := context.WithCancel(context.Background())
	r := i.Begin(storedFor(org, runID, runID), Rules{Grace: Grace, Shows: shown != ""}).Follow(texts{shown})
	for range 2 {
		_, _ = r.Next(ctx, time.Time{})
	}
	cancel()
	r.End(ctx)
}

// While the bus is unreachable, the clients of one organization leave so many runs, or runs with
// such long texts, that the Watch is full. The runs of another organization are still watched and
// later cancelled.
func TestOneOrganizationDoesNotUseUpTheWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runs  int
		shown string
	}{
		"runs":  {maxLeft + 10, ""},
		"texts": {maxLeftBytes>>20 + 10, strings.Repeat("x", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &fakeBus{}
				here := newIngress(t, "here", b)
				b.set(true)
				for n := range tc.runs {
					here.leaveFor("org_many", "many_"+strconv.Itoa(n), tc.shown)
				}
				var victims []string
				for n := range 10 {
					victims = append(victims, "victim_"+strconv.Itoa(n))
					here.leaveFor("org_victim", victims[n], tc.shown)
				}
				for n := range tc.runs { // until the Watch is full, and beyond
					here.leaveFor("org_many", "more_"+strconv.Itoa(n), tc.shown)
				}
				b.set(false)
				after(Grace + 2*time.Second)
				cancelled := here.took()
				for _, victim := range victims {
					if !slices.Contains(cancelled, victim) {
						t.Errorf("%s goes on without a reader", victim)
					}
				}
				if len(cancelled) > tc.runs {
					t.Errorf("%d runs were watched", len(cancelled))
				}
				if len(here.counts)+len(here.sizes)+here.bytes != 0 {
					t.Errorf("counted after the end: %v, %v, %d", here.counts, here.sizes, here.bytes)
				}
			})
		})
	}
}

// slowRuns implements Runs. Its cancellations take some time.
type slowRuns struct{ *ingress }

func (s slowRuns) Cancel(ctx context.Context, org, runID string) error {
	<-time.After(100 * time.Millisecond)
	return s.ingress.Cancel(ctx, org, runID)
}

// The cancellation of one organization's run need not wait until all runs of another organization
// are cancelled.
func TestCancellationsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here := newIngress(t, "here", &fakeBus{})
		here.runs = slowRuns{here}
		for n := range 100 * maxCancels {
			here.leaveFor("org_many", "many_"+strconv.Itoa(n), "")
		}
		here.leaveFor("org_victim", "victim", "")
		after(Grace + 2*time.Second)
		if got := here.took(); !slices.Contains(got, "victim") {
			t.Errorf("the victim waits for %d other runs", 100*maxCancels-len(got))
		}
		after(20 * time.Second)
		if got := here.took(); len(got) != 100*maxCancels+1 {
			t.Errorf("%d runs were cancelled", len(got))
		}
	})
}

// Remembered attempts of one organization do not displace those of other organizations.
func TestAttemptsOfOthersAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New("here", &fakeBus{}, &ingress{}, func(string) bool { return false }, zerolog.Nop())
		w.remember("victim", attempt{OrganizationID: "org_victim", RunID: "run_1"})
		for n := range 2 * maxRemembered {
			w.remember(fmt.Sprint("many", n), attempt{OrganizationID: "org_many", RunID: fmt.Sprint("run_", n)})
		}
		if _, got, _ := w.Earlier(Attempt{Request: "victim", Number: 1}); got != "run_1" {
			t.Errorf("the retry got %q", got)
		}
		if w.attempts.size > maxRemembered {
			t.Errorf("%d values", w.attempts.size)
		}
	})
}
