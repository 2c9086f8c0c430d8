//go:build race

package testkit

// Race is true if this test process has the race detector.
const Race = true
