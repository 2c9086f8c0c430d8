package testkit

import "testing"

// Long skips a test that takes a minute or more where only the others are asked for (-short), and says so.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("NOT TESTED without LONG=1: it takes a minute or more")
	}
}
