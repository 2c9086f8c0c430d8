//go:build !linux

package speechtest

// Children gives none where they cannot be found.
func Children(...string) []int { return nil }
