package e2e

import (
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests. It may exceed the number of cores, because
// tests mostly wait for leases to expire. The flag -parallel overrides it.
const sideBySide = 8

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}

// eventually polls until done returns true. It fails the test if done does not return true within
// the given duration.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	testkit.Poll(t, 20*time.Millisecond, within, what, done)
}

// nightly skips a test in short mode. The reason says why the test does not run at every push.
func nightly(t *testing.T, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED without LONG=1: " + reason)
	}
}
