package testkit

import "testing"

// Long skips the test in short mode (-short), with a message. It is for tests that take a minute or
// more.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("NOT TESTED without LONG=1: this test takes a minute or more")
	}
}
