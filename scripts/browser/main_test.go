package browser

import (
	"fmt"
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests, which share one browser and one service. The
// flag -parallel overrides it.
const sideBySide = 3

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	code := m.Run()
	if err := writeJourneys(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	if err := theEnv.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

// patience is the maximum time that a test waits for something to appear on a page.
const patience = 15 * time.Second

// patienceOfRequests is the timeout of an API request, which may wait for a run to finish.
const patienceOfRequests = 60 * time.Second

// eventually polls until done returns true. It fails the test if this takes longer than patience.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !polled(t, patience, done) {
		t.Fatalf("not true within %s: %s", patience, what)
	}
}

// polled polls until done returns true, and returns false if the time runs out or the test ends
// first. The intervals increase, because polling a browser uses a lot of CPU time.
func polled(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	began, pause := time.Now(), 20*time.Millisecond
	next := time.NewTimer(pause)
	defer next.Stop()

	for !done() {
		if testkit.Late(began, within) {
			return false
		}
		select {
		case <-next.C:
			pause = min(pause*3/2, 150*time.Millisecond)
			next.Reset(pause)
		case <-t.Context().Done():
			return false
		}
	}
	return true
}
