//go:build !race

package httpapi

// underRace tells that the race detector watches, under which everything takes several times as long.
const underRace = false
