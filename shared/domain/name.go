package domain

import (
	"strings"
	"unicode"
)

// CleanName is a name that somebody else chose, as a list, a log and a reader's eye may take it: the last part of what may be a
// path, without what is not seen in it or turns it around, and at most so many characters of it; "" when none is left.
func CleanName(name string, most int) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		// Joiners stay: some scripts and signs are written with them.
		const joiner, nonJoiner = '\u200d', '\u200c'
		switch {
		case r != ' ' && unicode.IsSpace(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return ' ' // also for those that break lines
		case r != joiner && r != nonJoiner && (r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf)):
			return -1
		}
		return r
	}, name))
	if strings.Trim(name, ". ") == "" {
		return ""
	}
	count := 0
	for at := range name {
		if count == most {
			return strings.TrimSpace(name[:at])
		}
		count++
	}
	return name
}
