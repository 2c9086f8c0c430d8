//go:build race

package testkit

// Race tells that this test process has the race detector.
const Race = true
