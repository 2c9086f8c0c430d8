package testkit

import "testing"

// Long skips a test that takes a minute or more in short mode (-short), with a message.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("NOT TESTED without LONG=1: this test takes a minute or more")
	}
}
