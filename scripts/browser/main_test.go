package browser

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is how many tests run at a time, unless -parallel says otherwise: they wait for one browser and one service.
const sideBySide = 3

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.SideBySide(sideBySide)
	code := m.Run()
	if err := theEnv.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

// patience is how long something may take to appear on a page.
func patience() time.Duration { return testkit.Within(15 * time.Second) }

// patienceOfRequests is how long an answer may take; a run's wait is part of it.
const patienceOfRequests = 60 * time.Second

// eventually polls until done says yes, and fails the test when that takes longer than within.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	if !polled(t, within, done) {
		t.Fatalf("not within %s: %s", within, what)
	}
}

// polled polls until done says yes, ever more slowly, for looking costs a browser a lot; false when the time or the test is over before.
func polled(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	over := time.NewTimer(within)
	defer over.Stop()
	pause := 20 * time.Millisecond
	next := time.NewTimer(pause)
	defer next.Stop()
	for !done() {
		select {
		case <-next.C:
			pause = min(pause*3/2, 150*time.Millisecond)
			next.Reset(pause)
		case <-over.C:
			return false
		case <-t.Context().Done():
			return false
		}
	}
	return true
}
