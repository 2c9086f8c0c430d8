package agentloop

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// linePrefix matches the characters that precede the words of a line: white space, quote signs,
// list markers, checkboxes and heading signs.
var linePrefix = regexp.MustCompile(`^[ \t]*(?:>[ \t]*)*(?:(?:[-*+•]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:#{1,6}[ \t]+)?`)

// abbreviation matches a common abbreviation at the end of a text. The full stop of an abbreviation
// does not end a sentence.
var abbreviation = regexp.MustCompile(`(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|vs|No|Fig|approx|ca|bzw|Nr|e\.g|i\.e|z\. ?B)\.$`)

// maxAbbreviation is an upper bound for the length in bytes of a match of abbreviation.
const maxAbbreviation = 16

// supports returns, for each marker of a text, the range in bytes of the words that the marker
// supports:
//
//   - A marker supports the words before it, from the end of the previous sentence, the line's
//     beginning, or another marker.
//   - Adjacent markers support the same words.
//   - A marker at the beginning of a line supports the words after it.
//   - A marker alone in its line supports the last sentence of the lines before.
func supports(text string, marks []mark) []extent {
	all := make([]extent, len(marks))
	lineFrom, lineStart, last := 0, afterIndent(text, 0), 0
	for i, m := range marks {
		from := last
		// Search only the text after the previous marker. The total time is then linear in the
		// length of the text.
		newline := strings.LastIndexByte(text[last:m.from], '\n')
		if newline >= 0 {
			lineFrom = last + newline + 1
			lineStart = afterIndent(text, lineFrom)
		}
		// If an earlier marker is in the same line, the words begin after that marker. Otherwise
		// they begin after the line's prefix.
		beside := i > 0 && newline < 0
		if !beside {
			from = lineFrom + len(linePrefix.FindString(text[lineFrom:m.from]))
		}
		last = m.to

		// In a table, only the words of the marker's own cell belong to the marker.
		inTable := lineStart < m.from && text[lineStart] == '|'
		if bar := strings.LastIndexByte(text[from:m.from], '|'); inTable && bar >= 0 {
			from, beside = from+bar+1, false
		}

		// Prefer the words before the marker in its line, then the words after it, then the lines
		// above.
		own, ok := lastSentence(text, from, m.from)
		if !ok && !beside {
			own, ok = sentenceAfter(text, marks[i:], inTable)
		}
		if !ok {
			own, ok = sentenceBefore(text, marks[:i], lineFrom)
		}

		switch {
		case ok:
			all[i] = own
		case i > 0:
			all[i] = all[i-1]
		default:
			all[i] = extent{m.from, m.from} // the marker supports no words
		}
	}
	return all
}

// afterIndent returns the offset of the first character of a line after its white space and quote
// signs.
func afterIndent(text string, lineFrom int) int {
	return len(text) - len(strings.TrimLeft(text[lineFrom:], " \t>"))
}

// sentenceAfter returns the first sentence after a marker within its line or table cell. Other
// markers may precede the sentence.
func sentenceAfter(text string, marks []mark, inTable bool) (extent, bool) {
	from, end := marks[0].to, len(text)
	ends := "\n"
	if inTable {
		ends = "|\n"
	}

	if n := strings.IndexAny(text[from:], ends); n >= 0 {
		end = from + n
	}

	// Search only between the markers, because the text of a marker is not a sentence.
	for i := 1; from < end; i++ {
		to, next := end, end
		if i < len(marks) && marks[i].from < end {
			to, next = marks[i].from, marks[i].to
		}
		for _, s := range splitSentences(text, from, to) {
			if hasWords(text[s.from:s.to]) {
				return trim(text, s), true
			}
		}
		from = next
	}
	return extent{}, false
}

// sentenceBefore returns the last sentence of the lines that end before the offset lineFrom. It
// does not search the text before the last marker in marks.
func sentenceBefore(text string, marks []mark, lineFrom int) (extent, bool) {
	last := 0
	if len(marks) > 0 {
		last = marks[len(marks)-1].to
	}
	for to := lineFrom - 1; to > last; {
		from := max(strings.LastIndexByte(text[:to], '\n')+1, last)
		if own, ok := lastSentence(text, from+len(linePrefix.FindString(text[from:to])), to); ok {
			return own, true
		}
		to = from - 1
	}
	return extent{}, false
}

// lastSentence returns the last sentence in text[from:to] that contains words.
func lastSentence(text string, from, to int) (extent, bool) {
	var found extent
	ok, open := false, false
	for _, s := range splitSentences(text, from, to) {
		if open { // the previous piece ended with an abbreviation, so its sentence continues
			s.from = found.from
		}
		if hasWords(text[s.from:s.to]) {
			found, ok = s, true
			open = endsInAbbreviation(text[s.from:s.to])
		}
	}
	return trim(text, found), ok
}

// endsInAbbreviation reports whether a text ends with an abbreviation. It reads only the end of the
// text, because callers extend the text sentence by sentence.
func endsInAbbreviation(text string) bool {
	text = strings.TrimRight(text, "\t\n\f\r ")
	return abbreviation.MatchString(text[max(len(text)-maxAbbreviation, 0):])
}

// splitSentences returns the sentences of text[from:to] as extents of text.
func splitSentences(text string, from, to int) []extent {
	var all []extent
	for it := sentences.FromString(text[from:to]); it.Next(); {
		all = append(all, extent{from + it.Start(), from + it.End()})
	}
	return all
}

// trim removes from an extent the leading characters that cannot begin a sentence, and the trailing
// characters that cannot end a sentence.
func trim(text string, e extent) extent {
	// Remove characters that cannot begin a sentence, and emphasis signs whose counterpart is
	// outside of the extent.
	for e.from < e.to {
		r, n := utf8.DecodeRuneInString(text[e.from:e.to])
		next, _ := utf8.DecodeRuneInString(text[e.from+n : e.to])
		if !startsNothing(r, unicode.IsLetter(next) || unicode.IsNumber(next)) {
			if n = emphasis(text[e.from:e.to]); n == 0 {
				break
			}
		}
		e.from += n
	}

	for e.from < e.to {
		r, n := utf8.DecodeLastRuneInString(text[e.from:e.to])
		if !unicode.IsSpace(r) && !strings.ContainsRune("([{（【「『“‘,;:，、；：|", r) {
			break
		}
		e.to -= n
	}
	return e
}

// startsNothing reports whether r cannot begin a sentence: a space, a combining mark, closing
// punctuation or a dash. Punctuation that is directly followed by a word may belong to this word,
// as in ".NET", unless it is a full-width mark.
func startsNothing(r rune, wordFollows bool) bool {
	switch {
	case unicode.IsSpace(r), unicode.IsMark(r), unicode.Is(unicode.Cf, r), strings.ContainsRune("，、；：。！？", r):
		return true
	case wordFollows:
		return false
	default:
		return unicode.In(r, unicode.Pe, unicode.Pf, unicode.Pd) || strings.ContainsRune(",;:.!?…،؛؟।|", r)
	}
}

// emphasis returns the length of the Markdown emphasis signs at the beginning of a text, or 0 if
// the text also contains their counterpart.
func emphasis(text string) int {
	n := len(text) - len(strings.TrimLeft(text, "*_"))
	if n == 0 || strings.Contains(text[n:], text[:n]) {
		return 0
	}
	return n
}
