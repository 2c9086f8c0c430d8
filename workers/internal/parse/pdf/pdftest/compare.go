package pdftest

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// PlainPages returns the plain output of pdftotext for a file, page by page.
func PlainPages(ctx context.Context, path string) ([]string, error) {
	text, err := exec.CommandContext(ctx, "pdftotext", "-enc", "UTF-8", path, "-").Output()
	if err != nil {
		return nil, fmt.Errorf("running pdftotext on %s: %w", path, err)
	}
	pages := strings.Split(string(text), "\f")
	return pages[:len(pages)-1], nil
}

// Compare compares ours, the output of our reader, with plain, the output of pdftotext. all is the
// number of words in plain, and found is the number of these words that ours also contains. missing
// lists the other words of plain, sorted.
func Compare(plain, ours string) (all, found int, missing []string) {
	have := words(ours)
	for w, n := range words(plain) {
		all += n
		found += min(n, have[w])
		if n > have[w] {
			missing = append(missing, w)
		}
	}
	slices.Sort(missing)
	return all, found, missing
}

// words counts the words of a text in a normalized form:
//
//   - Direction marks, vowel marks, and hyphens at the ends of lines are removed.
//   - Presentation forms are replaced by letters.
//   - In scripts without spaces, each letter is a word.
//   - Punctuation around words is removed, because poppler misplaces it in Arabic.
func words(text string) map[string]int {
	list := map[string]int{}
	text = strings.Map(compared, norm.NFKC.String(text))
	for w := range strings.FieldsSeq(text) {
		rest := strings.Map(func(r rune) rune {
			if !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
				return r
			}
			if unicode.IsLetter(r) {
				list[string(r)]++
			}
			return -1
		}, w)
		if word := strings.TrimFunc(rest, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N) }); word != "" {
			list[word]++
		}
	}
	return list
}

// compared maps a character for strings.Map: a direction mark becomes a space; hyphens, combining
// marks and control characters are dropped.
func compared(r rune) rune {
	switch {
	case r >= 0x202A && r <= 0x202C: // direction marks; poppler puts them, and spaces, around text that runs in the other direction
		return ' '
	case r == '-':
		return -1
	case unicode.In(r, unicode.Mn, unicode.Cf, unicode.Cc) && !unicode.IsSpace(r):
		return -1
	default:
		return r
	}
}
