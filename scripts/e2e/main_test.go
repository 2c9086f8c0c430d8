package e2e

import (
	"flag"
	"os"
	"testing"
	"time"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests, which mostly wait for leases. The flag
// -parallel overrides it.
const sideBySide = 8

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}

// eventually polls until done returns true. It fails the test if that takes longer than the
// duration within.
func eventually(t *testing.T, within time.Duration, what string, done func() bool) {
	t.Helper()
	lookEach(t, 20*time.Millisecond, within, what, done)
}

// lookEach is eventually with a longer interval, because requests count towards their caller's rate
// limit.
func lookEach(t *testing.T, each, within time.Duration, what string, done func() bool) {
	t.Helper()
	over := time.NewTimer(within)
	defer over.Stop()

	tick := time.NewTicker(each)
	defer tick.Stop()

	for !done() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("not true within %s: %s", within, what)
		case <-t.Context().Done():
			t.Fatalf("the test ended before this was true: %s", what)
		}
	}
}
