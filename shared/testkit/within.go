package testkit

import "time"

// Within is the time that a test allows something: d, and five times as much under the race detector,
// where the same work costs several times as much and all tests share the same few cores.
func Within(d time.Duration) time.Duration {
	if Race {
		return 5 * d
	}
	return d
}
