package store_test

import (
	"os"
	"testing"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests. It exceeds the number of cores, because the
// tests mostly wait for the database. The flag -parallel overrides it.
const sideBySide = 6

// repetitions returns how often a test repeats concurrent operations: short times with -short,
// otherwise full times. It logs the difference.
func repetitions(t *testing.T, short, full int) int {
	t.Helper()
	if !testing.Short() {
		return full
	}
	t.Logf("NOT TESTED without LONG=1: %d of %d repetitions", full-short, full)
	return short
}

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}
