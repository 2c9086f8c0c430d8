// Package truncate shortens texts to a bound without splitting a character.
package truncate

import "unicode/utf8"

// Bytes returns the longest prefix of s that has at most limit bytes and ends at a character
// boundary.
func Bytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Runes returns the first limit characters of s, which are Unicode code points. A limit of 0 or
// less gives the empty string.
func Runes(s string, limit int) string {
	for n := range s {
		if limit <= 0 {
			return s[:n]
		}
		limit--
	}
	return s
}

// Ellipsis returns s if it has at most limit characters. Otherwise it returns the first limit-1
// characters and "…".
func Ellipsis(s string, limit int) string {
	if len(s) <= limit || len(Runes(s, limit)) == len(s) {
		return s
	}
	return Runes(s, limit-1) + "…"
}
