//go:build !race

package httpapi

// underRace reports whether the race detector is enabled. With it, everything is several times
// slower.
const underRace = false
