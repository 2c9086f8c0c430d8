//go:build race

package testkit

// Race reports whether this test process was built with the race detector.
const Race = true
