package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within returns the time that a test should allow for something that takes the duration d. In a
// full run, that time is d. In short runs, in which the tests of other packages use the same few
// cores, that time is three times d. With the race detector, which makes code several times slower,
// that time is five times d.
func Within(d time.Duration) time.Duration {
	switch {
	case Race:
		return 5 * d
	case flag.Parsed() && testing.Short():
		return 3 * d
	default:
		return d
	}
}
