package websearch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unspaced lists scripts that have no spaces between words or have long compound words. In these
// scripts, each pair of adjacent letters counts as a word.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
	unicode.Tibetan,
}

// eachWord calls the function yield with each word of a text, in order. The words have a normalized
// form, so that spelling variants are equal. eachWord is used for both the query and the pages, so
// that their words can be compared.
func eachWord(text string, yield func(word string)) {
	text = fold(text)
	start, paired := -1, false // start of the current sequence of letters, and whether its words are pairs of letters

	// A change of the script ends a word, because words are separated differently in different
	// scripts.
	for i, r := range text {
		if !inWord(r) {
			emit(text, start, i, paired, yield)
			start = -1
			continue
		}
		pairs := r >= 0x0E00 && unicode.In(r, unspaced...)
		if start >= 0 && pairs != paired {
			emit(text, start, i, paired, yield)
			start = -1
		}
		if start < 0 {
			start, paired = i, pairs
		}
	}
	emit(text, start, len(text), paired, yield)
}

// inWord reports whether a character is a letter, digit or mark.
func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' // the text is folded, so it contains no capital letters
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M)
}

// emit calls the function yield with the words in a sequence of letters: the whole sequence or, if
// paired is true, its pairs of letters. The sequence is text[start:end]; a negative start means
// that there is none.
func emit(text string, start, end int, paired bool, yield func(string)) {
	if start < 0 {
		return
	}
	row := text[start:end]
	if !paired {
		yield(withoutArticle(row))
		return
	}
	_, first := utf8.DecodeRuneInString(row)
	if first == len(row) {
		yield(row)
		return
	}

	// The pairs overlap, so each possible word of two letters is included.
	for at, size := 0, first; at+size < len(row); {
		_, next := utf8.DecodeRuneInString(row[at+size:])
		yield(row[at : at+size+next])
		at, size = at+size, next
	}
}

// withoutArticle removes the Arabic article, which is written as part of the following word.
func withoutArticle(word string) string {
	if rest := strings.TrimPrefix(word, "ال"); utf8.RuneCountInString(rest) >= 3 {
		return rest
	}
	return word
}

// fold converts a text to lower case and removes accents and similar marks, which people often
// omit.
func fold(text string) string {
	text = strings.ToLower(text)
	if plain(text) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x0300 && r <= 0x036F, r >= 0x064B && r <= 0x065F, r == 0x0670, r == 0x0640, joiner(r):
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return strings.ReplaceAll(norm.NFC.String(text), "ß", "ss")
}

// stem returns the part that the inflected forms of a word usually have in common. This is the word
// without a final "s", or the first five letters of a longer word. It uses no dictionary, so it
// works for many languages, but not exactly.
func stem(word string) string {
	switch n := utf8.RuneCountInString(word); {
	case n < 4:
		return word
	case n < 6:
		return strings.TrimSuffix(word, "s")
	default:
		return truncateRunes(word, 5)
	}
}

// terms contains the words of a query without duplicates. Both maps contain the index of a word in
// the query.
type terms struct {
	// The keys of exact are the words, and the keys of stems are their stems. If several words have
	// the same stem, stems contains the index of the first word.
	exact map[string]int
	stems map[string]int
}

// stemWeight is the weight of an inflected form of a word, relative to the weight of the exact
// word.
const stemWeight = 0.4

// newTerms returns the words of a query without duplicates.
func newTerms(query string) terms {
	t := terms{exact: map[string]int{}, stems: map[string]int{}}
	eachWord(query, func(word string) {
		if _, known := t.exact[word]; known {
			return
		}
		t.exact[word] = len(t.exact)
		if _, known := t.stems[stem(word)]; !known {
			t.stems[stem(word)] = t.exact[word]
		}
	})
	return t
}

// match contains the number of times that a word of the query occurs in a text, in exact and in
// inflected form. word is the index of the word.
type match struct {
	word  int
	times float64
}

// count counts the occurrences of the query's words in a text. The result all is the total number
// of words in the text. The result found has an entry for each word that occurs.
func (t terms) count(text string) (found []match, all float64) {
	add := func(word int, times float64) {
		for i := range found {
			if found[i].word == word {
				found[i].times += times
				return
			}
		}
		found = append(found, match{word, times})
	}

	// Each word of the text is counted once: as an exact match or, with less weight, as an
	// inflected form.
	eachWord(text, func(word string) {
		all++
		if i, ok := t.exact[word]; ok {
			add(i, 1)
		} else if i, ok := t.stems[stem(word)]; ok {
			add(i, stemWeight)
		}
	})
	return found, all
}
