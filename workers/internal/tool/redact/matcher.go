package redact

import (
	"cmp"
	"slices"
	"strings"
)

// minForm is the minimum length in bytes of a text that a matcher can find.
const minForm = 4

// matcher finds texts within other texts, ignoring the case of ASCII letters. The zero value
// contains no texts.
//
// It looks up texts by their first four bytes, so a search reads each byte only once, independent
// of the number of texts.
type matcher struct {
	byStart map[uint32][]string // texts in lower case by their first four bytes, the longest first
	// starts makes most lookups in byStart unnecessary. A false positive costs only time.
	starts []bool // indexed by a hash of the first bytes: whether any text begins with them
}

// startBits is the number of bits of an index in starts.
const startBits = 12

// startHash returns the index in starts for a text with these first four bytes.
func startHash(start uint32) uint32 { return start * 2654435761 >> (32 - startBits) }

// newMatcher creates a matcher. It ignores texts shorter than minForm.
func newMatcher(texts []string) matcher {
	m := matcher{byStart: map[uint32][]string{}, starts: make([]bool, 1<<startBits)}
	for _, text := range texts {
		text = fold(text)
		// A shorter text would occur by chance in many responses.
		if len(text) < minForm {
			continue
		}
		var start uint32
		for i := range minForm {
			start = start<<8 | uint32(text[i])
		}
		m.byStart[start] = append(m.byStart[start], text)
		m.starts[startHash(start)] = true
	}

	// The longest text comes first, so that a secret is removed completely even if another secret
	// is its beginning.
	for start, same := range m.byStart {
		slices.SortFunc(same, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
		m.byStart[start] = slices.Compact(same)
	}
	return m
}

// replace replaces each text that it finds in s with the given string, from left to right. If
// several texts match at a position, the longest is replaced.
func (m *matcher) replace(s, instead string) string {
	if len(m.byStart) == 0 || len(s) < minForm {
		return s
	}

	var out strings.Builder
	var start uint32
	kept := 0 // s[:kept] has been copied to out
	for i := 0; i < len(s); i++ {
		start = start<<8 | uint32(folded(s[i]))
		at := i - minForm + 1
		// Positions inside of a replaced text are skipped.
		if at < kept || !m.starts[startHash(start)] {
			continue
		}

		n := m.matches(start, s[at:])
		if n == 0 {
			continue
		}

		out.WriteString(s[kept:at])
		out.WriteString(instead)
		kept = at + n
		i = kept - 1
	}
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

// matches returns the length of the longest text with which s begins, or 0.
func (m *matcher) matches(start uint32, s string) int {
	for _, text := range m.byStart[start] {
		if len(text) <= len(s) && equalFolded(s, text) {
			return len(text)
		}
	}
	return 0
}

// begun returns the length of the longest suffix of s that may be the beginning of a text.
func (m *matcher) begun(s string) int {
	longest := 0
	for _, same := range m.byStart {
		for _, text := range same {
			// Suffixes are tried from the longest to the shortest, so the first match is the
			// longest.
			for n := min(len(text), len(s)); n > longest; n-- {
				if equalFolded(s[len(s)-n:], text[:n]) {
					longest = n
				}
			}
		}
	}
	return longest
}

// equalFolded reports whether s begins with text, ignoring case. text is in lower case and not
// longer than s.
func equalFolded(s, text string) bool {
	for i := range len(text) {
		if folded(s[i]) != text[i] {
			return false
		}
	}
	return true
}

// folded converts an ASCII letter to lower case. It does not change other bytes.
func folded(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// fold applies folded to each byte.
func fold(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = folded(b[i])
	}
	return string(b)
}
