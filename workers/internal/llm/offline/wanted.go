package offline

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/workers/internal/analysis"
)

// wanted contains the words of a question. A passage that answers the question must contain enough
// of them.
type wanted []requiredWord

// requiredWord is one word of a question.
type requiredWord struct {
	text  string
	forms []string // the word's search terms in all languages
	must  bool     // every answering passage must contain this word
}

var (
	// Matches phrases such as "how many" in several languages. They occur in questions but not in
	// answers.
	asksMeasure = regexp.MustCompile(`(?i)\bhow\s+(?:many|much|often|soon|tall|high|long|old|far|big|large|deep|wide|heavy|fast)\b|` +
		`\bwie\s*(?:viele?|hoch|lange?|oft|alt|weit|tief|schwer|breit)\b|\bcombien(?:\s+de\s+temps)?\b|\bcu[aá]nt[oa]s?(?:\s+tiempo)?\b|` +
		`\bquant[oaie](?:\s+tempo)?\b|\bhoe\s*(?:veel|lang|hoog|vaak|oud|groot|ver)\b`)
	idle = setFor(`say says said mean means meant name named called document documents describe explain compare list find search show know tell
		according please happen happens kindly bitte heißt heisst`)
	// For scripts without spaces between words: characters, pairs of characters and endings that
	// belong to question words or function words.
	idleCharacters = `的是了在和有吗嗎呢什么麼多少几幾谁誰哪怎为為何候请請这這那个個吧啊我你他它们們会會`
	idlePairs      = setFor(`무엇 엇입 입니 니까 습니 언제 얼마 어디 누구 인가 가요 나요`)
	idleEndings    = `의는은을를에`
)

// want returns the words of a question, except words that only mark it as a question. Names and the
// longest word must occur in every answering passage.
func want(message string) wanted {
	bare := asksMeasure.ReplaceAllString(asksWhen.ReplaceAllString(message, " "), " ")
	names := analysis.Names(message)
	all := analysis.Query(bare)
	var list, others wanted
	for _, w := range all {
		one := requiredWord{text: w.Text, forms: w.Lexemes, must: names[w.Text]}
		if !one.must && (stopWords[w.Text] || idle[w.Text] || isIdlePair(w.Text)) {
			others = append(others, one)
			continue
		}
		list = append(list, one)
	}

	if len(list) == 0 {
		list = others // the question contains no other words
	}

	// The longest word is usually the topic, so every answering passage must contain it.
	if len(list) > 0 {
		longest := slices.MaxFunc(list, func(a, b requiredWord) int { return cmp.Compare(a.length(), b.length()) })
		for i := range list {
			list[i].must = list[i].must || list[i].text == longest.text && longest.length() > 2
		}
	}
	return list
}

// length returns the number of characters of the word.
func (w requiredWord) length() int { return utf8.RuneCountInString(w.text) }

// isIdlePair reports whether a pair of characters is part of a question word or function word.
func isIdlePair(pair string) bool {
	if !strings.ContainsFunc(pair, isUnspaced) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(pair)
	return strings.ContainsAny(pair, idleCharacters) || idlePairs[pair] || strings.ContainsRune(idleEndings, last) ||
		strings.ContainsFunc(pair, func(r rune) bool { return unicode.Is(unicode.Hiragana, r) })
}

// in counts the words that a text contains. enough reports whether they suffice for an answer: both
// of two words, all but one of three or four, or three fifths of a larger number.
func (w wanted) in(text, language string) (n int, enough bool) {
	have := terms(text, language)
	enough = true
	for _, one := range w {
		switch {
		case one.in(have):
			n++
		case one.must:
			enough = false
		}
	}

	// Longer questions contain more words that the answer need not repeat.
	least := len(w)
	switch {
	case len(w) > 4:
		least -= 2 * len(w) / 5
	case len(w) > 2:
		least--
	}
	return n, enough && n >= least
}

// languageFor returns the language of a text. It returns "en" if the language is not detected.
func languageFor(text string) string { return cmp.Or(analysis.Detect(text), "en") }

// terms returns the words of a text, as written and also without inflection.
func terms(text, language string) map[string]bool {
	have := map[string]bool{}
	// The words as written also match names and words of another language.
	for _, language := range []string{"", language} {
		for _, term := range analysis.Terms(language, text) {
			have[term.Text] = true
		}
	}
	return have
}

// in reports whether have contains any form of the word.
func (w requiredWord) in(have map[string]bool) bool {
	if slices.ContainsFunc(w.forms, func(f string) bool { return have[f] }) {
		return true
	}
	if strings.ContainsFunc(w.text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }) {
		return false // numbers and codes have no inflected forms
	}
	// The analysis does not know all forms of a word, for example in other languages. Such forms
	// usually begin with the same letters.
	for term := range have {
		if sameWord(w.text, term) {
			return true
		}
	}
	return false
}

// minCommon is the minimum number of characters that two forms of a word must share.
const minCommon = 4

// sameWord reports whether two words differ only in their endings, by at most three characters. If
// the words are short, they may differ by at most two.
func sameWord(a, b string) bool {
	if len(a) < minCommon || len(b) < minCommon || a[0] != b[0] {
		return false // most words already differ at the beginning
	}
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}

	common := 0
	for common < len(x) && x[common] == y[common] {
		common++
	}

	ending := 3
	if len(x) <= minCommon {
		ending = 2
	}
	return common >= max(minCommon, len(y)-ending)
}
