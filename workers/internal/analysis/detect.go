package analysis

import (
	"slices"
	"strings"
	"unicode"

	"github.com/RadhiFadlillah/whatlanggo"
)

// The language is detected from at most sample letters, and from at least minLetters.
const (
	sample     = 1500
	minLetters = 24
)

// script is a script in which texts are written. language is set if the script is used by only one
// language.
type script struct {
	table    *unicode.RangeTable
	language string
}

// scripts lists the scripts whose letters are counted. If a script has no language, several
// languages use it, and statistics decide between them.
var scripts = [...]script{
	{unicode.Latin, ""},
	{unicode.Thai, "th"},
	{unicode.Lao, "lo"},
	{unicode.Khmer, "km"},
	{unicode.Myanmar, "my"},
	{unicode.Hangul, "ko"},
	{unicode.Greek, "el"},
	{unicode.Armenian, "hy"},
	{unicode.Georgian, "ka"},
	{unicode.Bengali, "bn"},
	{unicode.Tamil, "ta"},
	{unicode.Telugu, "te"},
	{unicode.Kannada, "kn"},
	{unicode.Malayalam, "ml"},
	{unicode.Gujarati, "gu"},
	{unicode.Gurmukhi, "pa"},
	{unicode.Sinhala, "si"},
	{unicode.Cyrillic, ""},
	{unicode.Arabic, ""},
	{unicode.Devanagari, ""},
	{unicode.Hebrew, "he"},
	{unicode.Ethiopic, "am"},
}

// Detect returns the language of a text as a BCP 47 tag. It returns "" if the language is
// uncertain, for example if the text is short, mixes languages, or consists of numbers or code. It
// examines at most longText bytes.
func Detect(text string) string {
	if len(text) <= windowSize {
		return detectWindow(reduced(text))
	}
	// Several parts of a long text are examined. Running text is preferred to tables of contents,
	// tables and lists.
	var found []string
	for _, window := range windows(text) {
		language := detectWindow(window)
		// Two parts with the same language are sufficient.
		if language != "" && slices.Contains(found, language) {
			return language
		}
		if language != "" {
			found = append(found, language)
		}
	}

	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// detectWindow returns the language of a part of a text, or "" if the language is uncertain. If the
// script does not determine the language, stop words and letter statistics must agree, or one of
// them must be very certain.
func detectWindow(text string) string {
	letters, language, sure := survey(text)
	if sure || letters == "" {
		return language
	}

	// Letter statistics are unreliable for short texts, and lists contain few stop words. So both
	// methods are combined.
	info := whatlanggo.Detect(letters)
	guess := base(info.Lang.Iso6391())
	found := stopShares(letters)
	best, share, second := leader(found)
	listed := stops()[guess] != nil

	switch {
	case listed && found[guess] >= 0.1 && found[guess] >= 0.85*share: // letter statistics and stop words agree
		return guess
	case !listed && info.Confidence >= 0.9 && share < 0.1:
		// This language has no list of stop words, so the letter statistics alone must be very
		// certain.
		return guess
	case share >= 0.2 && share >= 1.3*second: // the text is too short for letter statistics
		return best
	}
	return ""
}

// census counts the letters in a text by script, and the other characters. White space and marks
// are not counted.
type census struct {
	scripts              [len(scripts)]int
	han, kana, all, rest int // all is the number of letters in all scripts except han and kana
}

// count adds a character to the census.
func (c *census) count(r rune) {
	switch {
	// This case handles the most common letters quickly. The result would be the same without it.
	case r|0x20 >= 'a' && r|0x20 <= 'z':
		c.scripts[latin]++
		c.all++
	case r == ' ' || r == '\n' || unicode.IsMark(r):
	case !unicode.IsLetter(r):
		c.rest++
	case unicode.Is(unicode.Han, r):
		c.han++
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		c.kana++
	default:
		if i := slices.IndexFunc(scripts[:], func(s script) bool { return unicode.Is(s.table, r) }); i >= 0 {
			c.scripts[i]++
		}
		c.all++
	}
}

// survey returns the letters of a text's main script as words in lower case. If only one language
// uses that script, survey returns the language instead, and sure is true. It returns neither if
// most of the text is not letters, or if no script is prevalent.
func survey(text string) (letters, language string, sure bool) {
	var c census
	for _, r := range text {
		if c.count(r); c.all+c.han+c.kana >= sample {
			break
		}
	}

	// Japanese uses Chinese characters as well, so the share of kana distinguishes the two
	// languages.
	if far := c.han + c.kana; far*2 > c.all && far*3 > c.rest*2 && far >= 6 {
		switch {
		case c.kana*12 > c.han:
			return "", "ja", true
		case c.kana*50 <= c.han:
			return "", "zh", true
		}
		return "", "", false
	}

	for i, n := range c.scripts {
		// At least 60 % of the letters must be in the main script.
		if n*10 < (c.all+c.han+c.kana)*6 || n < minLetters || n < c.rest*2 {
			continue
		}
		if scripts[i].language == "" {
			return onlyScript(text, scripts[i].table), "", false
		}
		return "", scripts[i].language, true
	}
	return "", "", false
}

// latin is the index of the Latin script in scripts.
const latin = 0

// onlyScript returns the beginning of a text in lower case. It replaces each character that is not
// of the given script with a space.
func onlyScript(text string, script *unicode.RangeTable) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		// Spaces are counted as well. Twice the sample usually contains enough letters.
		if n++; n > 2*sample {
			break
		}
		switch {
		case unicode.Is(script, r) || unicode.IsMark(r):
			b.WriteRune(unicode.ToLower(r))
		case r == '\'' || r == '’':
			b.WriteByte('\'')
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// stopShares returns the share of a text's words that are stop words, for each language. It omits
// languages of which the text contains fewer than two different stop words.
func stopShares(letters string) map[string]float64 {
	words := strings.Fields(letters)
	counts := make(map[string]int, len(words))
	for _, word := range words {
		counts[folded(word)]++
	}

	found := map[string]float64{}
	for language, set := range stops() {
		n, different := 0, 0
		for word, times := range counts {
			if set[word] {
				n += times
				different++
			}
		}
		// A single stop word could be a loanword or a name.
		if different >= 2 {
			found[language] = float64(n) / float64(len(words))
		}
	}
	return found
}

// leader returns the language with the largest share of stop words, that share, and the second
// largest share.
func leader(found map[string]float64) (best string, share, second float64) {
	for language, has := range found {
		switch {
		// If two shares are equal, the order of the languages decides, because the order of the map
		// is random.
		case has > share || has == share && language < best:
			best, share, second = language, has, share
		case has > second:
			second = has
		}
	}
	return best, share, second
}
