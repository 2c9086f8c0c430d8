package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within returns the time that a test should allow for something that takes the duration d. In a
// full run, this is d. In short runs it is three times d, because the tests of other packages use
// the same few cores. With the race detector it is five times d, because the detector makes code
// several times slower.
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
