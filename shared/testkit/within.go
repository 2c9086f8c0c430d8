package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within scales the time that a test allows for something: d; three times as much in short
// runs, in which other packages' tests use the same few cores; and five times as much with the
// race detector, which is several times slower.
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
