//go:build !race

package httpapi

// underRace reports whether the race detector is enabled, which makes everything several times
// slower.
const underRace = false
