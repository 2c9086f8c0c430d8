package agentloop

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// beforeWords is what stands before the words of a line: quotes, items of lists, boxes to tick, headings.
var beforeWords = regexp.MustCompile(`^[ \t]*(?:>[ \t]*)*(?:(?:[-*+•]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:#{1,6}[ \t]+)?`)

// shortened ends words that are written with a full stop, behind which a sentence goes on.
var shortened = regexp.MustCompile(`(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|vs|No|Fig|approx|ca|bzw|Nr|e\.g|i\.e|z\. ?B)\.$`)

// longestShortened is more bytes than any of these words has, with what stands before it.
const longestShortened = 16

// supports gives, for each marker of a text, the words that it stands behind, in bytes: the sentence or clause from the
// end of the one before, of the line's beginning, or of another marker's words. Markers side by side support the same.
// A marker that its line begins with stands for what follows it, and one alone in its line for the line before.
func supports(text string, marks []mark) []extent {
	all := make([]extent, len(marks))
	lineFrom, lineStart, last := 0, afterIndent(text, 0), 0
	for i, m := range marks {
		from := last
		newline := strings.LastIndexByte(text[last:m.from], '\n')
		if newline >= 0 {
			lineFrom = last + newline + 1
			lineStart = afterIndent(text, lineFrom)
		}
		beside := i > 0 && newline < 0
		if !beside {
			from = lineFrom + len(beforeWords.FindString(text[lineFrom:m.from]))
		}
		last = m.to
		inTable := lineStart < m.from && text[lineStart] == '|'
		if bar := strings.LastIndexByte(text[from:m.from], '|'); inTable && bar >= 0 {
			from, beside = from+bar+1, false
		}
		own, ok := lastSentence(text, from, m.from)
		if !ok && !beside {
			own, ok = behind(text, marks[i:], inTable)
		}
		if !ok {
			own, ok = before(text, marks[:i], lineFrom)
		}
		switch {
		case ok:
			all[i] = own
		case i > 0:
			all[i] = all[i-1]
		default:
			all[i] = extent{m.from, m.from} // there are no words
		}
	}
	return all
}

// afterIndent gives where a line begins behind indents and the signs of quotes.
func afterIndent(text string, lineFrom int) int {
	return len(text) - len(strings.TrimLeft(text[lineFrom:], " \t>"))
}

// behind gives the first sentence behind a marker in its line, or cell, up to the next one with words before it.
func behind(text string, marks []mark, inTable bool) (extent, bool) {
	from, end := marks[0].to, len(text)
	ends := "\n"
	if inTable {
		ends = "|\n"
	}
	if n := strings.IndexAny(text[from:], ends); n >= 0 {
		end = from + n
	}
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

// before gives the last sentence of the lines before one, down to the last marker there.
func before(text string, marks []mark, lineFrom int) (extent, bool) {
	last := 0
	if len(marks) > 0 {
		last = marks[len(marks)-1].to
	}
	for to := lineFrom - 1; to > last; {
		from := max(strings.LastIndexByte(text[:to], '\n')+1, last)
		if own, ok := lastSentence(text, from+len(beforeWords.FindString(text[from:to])), to); ok {
			return own, true
		}
		to = from - 1
	}
	return extent{}, false
}

// lastSentence gives the last sentence with words in a part of a text.
func lastSentence(text string, from, to int) (extent, bool) {
	var found extent
	ok, open := false, false
	for _, s := range splitSentences(text, from, to) {
		if open { // the one before only seemed to end
			s.from = found.from
		}
		if hasWords(text[s.from:s.to]) {
			found, ok = s, true
			open = endsShortened(text[s.from:s.to])
		}
	}
	return trim(text, found), ok
}

// endsShortened reports whether a text ends with a shortened word. It looks at no more than the end: the text grows with
// each one.
func endsShortened(text string) bool {
	text = strings.TrimRight(text, "\t\n\f\r ")
	return shortened.MatchString(text[max(len(text)-longestShortened, 0):])
}

func splitSentences(text string, from, to int) []extent {
	var all []extent
	for it := sentences.FromString(text[from:to]); it.Next(); {
		all = append(all, extent{from + it.Start(), from + it.End()})
	}
	return all
}

// trim takes off the ends of an extent what belongs to the words before and behind it.
func trim(text string, e extent) extent {
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

// startsNothing reports whether words do not begin with this: spaces, marks of the letter before, signs that end, and
// dashes. One that a word follows at once may be its own, as in ".NET", but for those that no space follows.
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

// emphasis gives the length of the Markdown emphasis that a text begins with and that ends behind it.
func emphasis(text string) int {
	n := len(text) - len(strings.TrimLeft(text, "*_"))
	if n == 0 || strings.Contains(text[n:], text[:n]) {
		return 0
	}
	return n
}
