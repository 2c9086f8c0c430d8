package websearch

import (
	"strings"
	"unicode"

	"golang.org/x/text/language"
)

// declaredLanguage returns the first language in a page's or header's declaration as a BCP 47 tag,
// or "" if the declaration is invalid. It accepts "_" in place of "-", as in "en_US".
func declaredLanguage(declared string) string {
	first, _, _ := strings.Cut(declared, ",")
	if len(first) > 40 {
		return ""
	}
	tag, err := language.Parse(strings.ReplaceAll(strings.TrimSpace(first), "_", "-"))
	if base, _ := tag.Base(); err != nil || tag == language.Und || base.String() == "und" {
		return ""
	}
	return tag.String()
}

// scripts lists scripts that are used only or mostly by one language. The first script with enough
// letters determines the language. Kana comes before Han, because Japanese uses both.
var scripts = []struct {
	letters  []*unicode.RangeTable
	language string
}{
	{[]*unicode.RangeTable{unicode.Hiragana, unicode.Katakana}, "ja"},
	{[]*unicode.RangeTable{unicode.Hangul}, "ko"},
	{[]*unicode.RangeTable{unicode.Han}, "zh"},
	{[]*unicode.RangeTable{unicode.Arabic}, "ar"},
	{[]*unicode.RangeTable{unicode.Hebrew}, "he"},
	{[]*unicode.RangeTable{unicode.Greek}, "el"},
	{[]*unicode.RangeTable{unicode.Thai}, "th"},
	{[]*unicode.RangeTable{unicode.Cyrillic}, "ru"},
	{[]*unicode.RangeTable{unicode.Devanagari}, "hi"},
	{[]*unicode.RangeTable{unicode.Armenian}, "hy"},
	{[]*unicode.RangeTable{unicode.Georgian}, "ka"},
}

// others maps the language that a script usually indicates to the letters that indicate another
// language with the same script.
var others = map[string][]struct{ letters, language string }{
	"ar": {{"پچژگ", "fa"}},
	"ru": {{"іїєґ", "uk"}},
}

const sample = 4000 // number of bytes used for the detection

// languageFor guesses a text's language from its script. For a script of many languages, such as
// Latin, it returns "".
func languageFor(text string) string {
	text = text[:min(len(text), sample)]
	all, counts := 0, make([]int, len(scripts))
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		all++

		// Languages with the same script are distinguished by letters that only one of them uses.
		for i, s := range scripts {
			if unicode.In(r, s.letters...) {
				counts[i]++
				break
			}
		}
	}
	for i, s := range scripts {
		if all == 0 || 5*counts[i] < all { // a fifth of the letters suffices, because texts in these scripts often contain Latin terms
			continue
		}
		for _, other := range others[s.language] {
			if strings.ContainsAny(text, other.letters) {
				return other.language
			}
		}
		return s.language
	}
	return ""
}
