package testkit

import (
	"flag"
	"testing"
	"time"
)

// Within is the time that a test allows something: d, three times as much in short runs, in which the tests of other packages take
// the same few cores, and five times as much under the race detector, where the same work costs several times as much, too.
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
