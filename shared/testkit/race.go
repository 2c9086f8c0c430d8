//go:build race

package testkit

// raceEnabled tells that this test process has the race detector.
const raceEnabled = true
