package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within returns the time that a test should allow for something that takes the duration d. That is
// d in a full run. In short runs, in which the tests of other packages use the same few cores, it
// is three times d; with the race detector, which makes code several times slower, it is five times
// d.
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
