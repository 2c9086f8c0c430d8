package analysis

import (
	"slices"
	"strings"
	"unicode"

	"github.com/RadhiFadlillah/whatlanggo"
)

// sample is how much of a text its language is told from, in letters, fewest how few of them say nothing.
const (
	sample = 1500
	fewest = 24
)

// script is a script, and its language when it is one language's, as far as anybody can tell from characters alone.
type script struct {
	table    *unicode.RangeTable
	language string
}

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

// Detect tells the language of a text as a BCP 47 tag, "" when it is not sure: too little text, a mixture, numbers, code.
func Detect(text string) string {
	if len(text) <= windowSize {
		return tell(reduced(text))
	}
	// A long text is looked at in several places: at sentences rather than at contents, tables and lists.
	var told []string
	for _, window := range windows(text) {
		language := tell(window)
		if language != "" && slices.Contains(told, language) {
			return language
		}
		if language != "" {
			told = append(told, language)
		}
	}
	if len(told) == 0 {
		return ""
	}
	return told[0]
}

// tell tells the language of one window.
func tell(text string) string {
	letters, language, sure := survey(text)
	if sure || letters == "" {
		return language
	}
	info := whatlanggo.Detect(letters)
	guess := base(info.Lang.Iso6391())
	found := bindings(letters)
	best, share, second := leader(found)
	listed := stops()[guess] != nil
	switch {
	case listed && found[guess] >= 0.1 && found[guess] >= 0.85*share: // trigrams and words agree
		return guess
	case !listed && info.Confidence >= 0.9 && share < 0.1:
		return guess
	case share >= 0.2 && share >= 1.3*second: // too short for trigrams
		return best
	}
	return ""
}

// census is how many letters of each script a text has, and how much else.
type census struct {
	scripts              [len(scripts)]int
	han, kana, all, rest int // all: letters that are not of the Far East
}

func (c *census) count(r rune) {
	switch {
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

// survey gives the letters of a text in its script, as words, and its language if the script is of one only. Both are empty when
// letters are not most of the text, or no script is most of the letters.
func survey(text string) (letters, language string, sure bool) {
	var c census
	for _, r := range text {
		if c.count(r); c.all+c.han+c.kana >= sample {
			break
		}
	}
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
		if n*10 < (c.all+c.han+c.kana)*6 || n < fewest || n < c.rest*2 {
			continue
		}
		if scripts[i].language == "" {
			return only(text, scripts[i].table), "", false
		}
		return "", scripts[i].language, true
	}
	return "", "", false
}

// latin is where Latin stands among the scripts.
const latin = 0

// only is the beginning of a text, with spaces for all that is not of a script.
func only(text string, script *unicode.RangeTable) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
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

// bindings says of each language how much of a text is its stop words, 0 where fewer than two different ones are.
func bindings(letters string) map[string]float64 {
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
		if different >= 2 {
			found[language] = float64(n) / float64(len(words))
		}
	}
	return found
}

// leader is the language of which a text has most stop words, and how much the next one has.
func leader(found map[string]float64) (best string, share, second float64) {
	for language, has := range found {
		switch {
		case has > share || has == share && language < best:
			best, share, second = language, has, share
		case has > second:
			second = has
		}
	}
	return best, share, second
}
