package offline

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// statement is a sentence of a source, and who says it.
type statement struct {
	text    string // as the answer has it
	markers string
	score   int
}

// fromSources states what the sources say of what was asked: the sentences with the most of its words, each as it
// stands in its source, in the source's own language, with the source's marker right behind it.
func fromSources(results []llm.ToolResult, asked asked) string {
	var found []statement
	for _, r := range results {
		if r.Failed {
			continue
		}
		for _, source := range r.Sources {
			asked := asked
			if source.Type == typeDocument {
				if asked = asked.ofDocuments(); !asked.saidBy(source) {
					continue
				}
				asked.language = languageFor(source.CitedText)
			}
			s := state(source, asked)
			if i := slices.IndexFunc(found, func(o statement) bool { return o.text == s.text }); i >= 0 {
				found[i].markers += strings.TrimSpace(s.markers)
				continue
			}
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.SortStableFunc(found, func(a, b statement) int { return b.score - a.score })
	found = found[:min(len(found), quotedSources)]
	var b strings.Builder
	b.WriteString("This is what I found:")
	for _, s := range found {
		b.WriteString("\n\n" + s.text + s.markers)
	}
	return b.String()
}

// foreignMarkers are markers that a source brought along; in an answer they would cite something else.
var foreignMarkers = regexp.MustCompile(`\[\s*\d[^\]\n]*\]?`)

// unquotable is what a marker's quote had better not hold.
const unquotable = "\"“”„«»[]`\n"

// leastQuote is how many characters of a sentence are worth quoting, unless it has no more.
const leastQuote = 4

// state gives the sentence of a source that answers best.
func state(s domain.Citation, asked asked) statement {
	sentence, score := bestSentence(s.CitedText, asked, func(s string) bool { return withoutMarkers(s) != "" })
	text := withoutMarkers(sentence)
	if text == "" { // a source that says nothing cannot be cited, only named
		return statement{text: excerpt(cmp.Or(withoutMarkers(s.Title), "Untitled"), quotedText), score: -1}
	}
	return statement{text: excerpt(text, quotedText), markers: " " + mark(s.ID, exact(sentence)), score: asked.weigh(sentence, score)}
}

// unfenced keeps a source's text from opening code.
var unfenced = strings.NewReplacer("`", "'")

func withoutMarkers(text string) string {
	text = strings.Join(strings.Fields(foreignMarkers.ReplaceAllString(text, "")), " ")
	return strings.TrimLeft(unfenced.Replace(text), "~ ") // no code begins here: markers inside it would be text
}

// exact gives words of a sentence that stand in its source without a gap: all of it up to the first foreign marker
// behind some words, no longer than what is shown of it.
func exact(sentence string) string {
	for _, part := range foreignMarkers.Split(sentence, -1) {
		if part = strings.TrimSpace(part); utf8.RuneCountInString(part) >= leastQuote || part == strings.TrimSpace(sentence) {
			return clip(part, quotedText)
		}
	}
	return ""
}

// mark writes a source's marker; without words that can be quoted, the number alone.
func mark(id int, quote string) string {
	if quote == "" || strings.ContainsAny(quote, unquotable) {
		return fmt.Sprintf("[%d]", id)
	}
	return fmt.Sprintf("[%d \"%s\"]", id, quote)
}

// sentenceEnd is what ends a sentence, whatever the script.
var sentenceEnd = regexp.MustCompile(`[.!?…]["”’»)]*(?:\[[^\]\n]*\])*(?:\s+|$)|[。！？｡][」』”]*|[؟۔।॥]\s*|\n+`)

// cutSentence gives the sentence that a text begins with, and what follows it.
func cutSentence(text string) (sentence, rest string) {
	end := len(text)
	if at := sentenceEnd.FindStringIndex(text); at != nil {
		end = at[1]
	}
	return strings.TrimSpace(text[:end]), text[end:]
}

func firstSentence(text string) string {
	first, _ := cutSentence(strings.TrimSpace(text))
	return first
}

// asked is what a question asks for: its words, and the form that an answer is likely to have, if any.
type asked struct {
	message string
	words   map[string]bool
	form    *regexp.Regexp
	// When documents are asked, in place of the words.
	wanted   wanted
	language string // of the passage at hand
}

func ask(message string) asked {
	a := asked{message: message, words: make(map[string]bool)}
	for _, w := range words(message) {
		a.words[w] = true
	}
	switch {
	case asksWhen.MatchString(message):
		a.form = aDate
	case asksSize.MatchString(message):
		a.form = aNumber
	case asksWho.MatchString(message):
		a.form = aPerson
	}
	return a
}

// expects reports whether it is told plainly enough whether a text has the form asked for; persons are not.
func (a asked) expects() bool { return a.form != nil && a.form != aPerson }

// has reports whether a sentence has the form asked for; a year is no size, and a foreign marker's number neither.
func (a asked) has(sentence string) bool {
	if a.form == nil {
		return false
	}
	sentence = foreignMarkers.ReplaceAllString(sentence, "")
	if a.form == aNumber {
		sentence = aYear.ReplaceAllString(sentence, "")
	}
	return a.form.MatchString(sentence)
}

// weigh makes the form asked for outweigh one word of a sentence that has so many. Of a document's table, a row with numbers comes
// before the one that names the columns.
func (a asked) weigh(sentence string, words int) int {
	switch {
	case a.has(sentence) && a.expects():
		return 2*words + 3
	case a.has(sentence):
		return 2*words + 1
	case a.wanted != nil && strings.Contains(sentence, " | ") && strings.ContainsFunc(sentence, unicode.IsDigit):
		return 2*words + 1
	}
	return 2 * words
}

// bestSentence gives the first sentence with the most of the words asked for, and how many it has;
// the form asked for counts too.
func bestSentence(text string, asked asked, allowed func(string) bool) (best string, score int) {
	score = -1
	maximum := -1
	for text != "" {
		var sentence string
		sentence, text = cutSentence(text)
		if sentence == "" || (allowed != nil && !allowed(sentence)) {
			continue
		}
		n := asked.count(sentence)
		if weight := asked.weigh(sentence, n); weight > maximum {
			best, score, maximum = sentence, n, weight
		}
	}
	return best, score
}

// count counts the words asked for that a sentence has.
func (a asked) count(sentence string) int {
	if a.wanted != nil {
		n, _ := a.wanted.in(sentence, a.language)
		return n
	}
	return overlap(words(sentence), a.words)
}

// overlap counts the different words of a sentence that are among those asked for.
func overlap(have []string, asked map[string]bool) int {
	seen := map[string]bool{}
	for _, w := range have {
		if asked[w] {
			seen[w] = true
		}
	}
	return len(seen)
}
