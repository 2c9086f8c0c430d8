package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within returns the time that a test should allow for something that takes the duration d. That is
// d itself; three times d in short runs, in which the tests of other packages use the same few
// cores; and five times d with the race detector, which is several times slower.
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
