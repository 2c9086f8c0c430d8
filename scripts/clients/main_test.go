package clients

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests. It is small because each test starts
// processes. The flag -parallel overrides it.
const sideBySide = 4

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	code := m.Run()
	if err := theEnv.end(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	if err := theMatrix.end(ranAll() && code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		code = 1
	}
	os.Exit(code)
}

// ranAll reports whether the test process ran all tests. It returns false if a flag selected or
// skipped some tests.
func ranAll() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}

// patience is the maximum time that a client's script may run.
func patience() time.Duration { return testkit.Within(2 * time.Minute) }

// eventually polls until done returns true. It fails the test if done does not return true within
// the given duration.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	if !polled(t, within, done) {
		t.Fatalf("not true within %s: %s", within, what)
	}
}

// polled polls until done returns true. It returns false if the time runs out or the test ends
// first.
func polled(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for !done() {
		if testkit.Late(began, within) {
			return false
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return false
		}
	}
	return true
}
