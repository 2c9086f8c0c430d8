//go:build race

package testkit

// Race reports whether this test process has the race detector.
const Race = true
