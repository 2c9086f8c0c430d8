package clients

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is how many tests run at a time, unless -parallel says otherwise: each starts processes of its own.
const sideBySide = 4

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.SideBySide(sideBySide)
	code := m.Run()
	if err := theEnv.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	os.Exit(code)
}

// patience is how long a client's script may take.
func patience() time.Duration { return testkit.Within(2 * time.Minute) }

// eventually polls until done says yes, and fails the test when that takes longer than within.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	if !polled(t, within, done) {
		t.Fatalf("not within %s: %s", within, what)
	}
}

// polled polls until done says yes; false when the time or the test is over before.
func polled(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	over := time.NewTimer(within)
	defer over.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-over.C:
			return false
		case <-t.Context().Done():
			return false
		}
	}
	return true
}
