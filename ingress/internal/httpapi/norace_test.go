//go:build !race

package httpapi

// underRace reports whether the race detector is enabled. With the race detector, everything is
// several times slower.
const underRace = false
