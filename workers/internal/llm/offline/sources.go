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

// statement is a sentence from a source, with the markers that cite its sources.
type statement struct {
	text    string // the sentence as it appears in the answer
	markers string
	score   int
	title   string // the title of the source
	quoted  string // the sentence as it appears in the source

	document bool // the source is a passage of a document
}

// comparing matches messages that ask for a comparison of sources.
var comparing = regexp.MustCompile(`(?i)^(?:please\s+)?compare\b`)

// overview matches messages that ask for the main points of the documents, or of one document.
var overview = regexp.MustCompile(`(?i)^\s*(?:please\s+)?(?:what\s+are\s+the\s+(?:main|key|most\s+important)\s+points\s+(?:of|in)|` +
	`summari[sz]e|give\s+(?:me\s+)?(?:a\s+summary|an\s+overview)\s+of|what(?:'s|\s+is)\s+in)\s+(?:(?:all\s+)?(?:the|these|my|our|your)\s+documents|[“"]([^”"]+)[”"])\s*[.?!]*\s*$`)

// asksOverview reports whether a message asks for the main points of the documents. document is the
// name of the document, or "" for all documents.
func asksOverview(message string) (document string, ok bool) {
	m := overview.FindStringSubmatch(message)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// fromSources answers with the sentences of the sources that contain the most words of the
// question. It quotes each sentence in its original language, followed by the source's marker. If
// the message asks for a comparison, it quotes one sentence of each source, with its title. If the
// message asks for the main points of the documents, it quotes the beginnings of their sections.
func fromSources(results []llm.ToolResult, q question) string {
	found := statements(results, q)
	if len(found) == 0 {
		return ""
	}
	if document, ok := asksOverview(q.message); comparing.MatchString(q.message) || ok && document == "" {
		found = bySource(found)
	} else {
		best := found[0].score
		found = slices.DeleteFunc(found, func(s statement) bool { return s.score < 0 && best >= 0 || s.document && 5*s.score < 4*best })
	}

	parts := []string{"This is what I found:"}
	for _, s := range found[:min(len(found), quotedSources)] {
		parts = append(parts, s.text+s.markers)
	}
	return strings.Join(parts, "\n\n")
}

// statements returns one statement for each source that answers the question, the best first. It
// joins equal statements.
func statements(results []llm.ToolResult, q question) (found []statement) {
	for _, r := range results {
		for _, source := range r.Sources {
			q, ok := q.forSource(source)
			if !ok || r.Failed {
				continue
			}
			s := state(source, q)
			// Several sources often contain the same sentence. It is quoted once, with all of their
			// markers.
			if i := slices.IndexFunc(found, func(o statement) bool { return o.text == s.text }); i >= 0 {
				found[i].markers += strings.TrimSpace(s.markers)
				continue
			}
			found = append(found, s)
		}
	}

	// The sort is stable, so sentences of equal weight stay in the order of the sources.
	slices.SortStableFunc(found, func(a, b statement) int { return b.score - a.score })
	return found
}

// bySource returns the first statement of each source. If there are several sources, each statement
// begins with the title of its source.
func bySource(all []statement) []statement {
	var found []statement
	for _, s := range all {
		if !slices.ContainsFunc(found, func(o statement) bool { return o.title == s.title }) {
			found = append(found, s)
		}
	}
	// The title only helps to distinguish sources.
	if len(found) < 2 {
		return found
	}
	for i := range found {
		between := " "
		if strings.HasPrefix(found[i].text, "- ") { // a list
			between = "\n\n"
		}
		if found[i].title != "" {
			found[i].text = "**" + found[i].title + ":**" + between + found[i].text
		}
	}
	return found
}

// forSource returns the question in the form in which it is applied to a source. It returns false
// if the source does not answer the question.
func (q question) forSource(s domain.Citation) (question, bool) {
	if s.Type != typeDocument {
		return q, true
	}
	if q = q.ofDocuments(); !q.answeredBy(s) {
		return q, false
	}
	q.language = languageFor(s.CitedText)
	return q, true
}

// foreignMarkers matches markers that are part of a source's text. In an answer, they would cite
// the wrong source.
var foreignMarkers = regexp.MustCompile(`\[\s*\d[^\]\n]*\]?`)

// unquotable contains the characters that the quote in a marker must not contain.
const unquotable = "\"“”„«»[]`\n"

// minQuote is the minimum length of a quote in characters. A shorter sentence is quoted as a whole.
const minQuote = 4

// state returns the sentence of a source that answers the question best. If the question asks for
// the main points of the documents, state returns the beginnings of the source's sections.
func state(s domain.Citation, q question) statement {
	best, score := q.best(s)
	text := withoutMarkers(best.text)
	if text == "" { // a source without text is only named
		return statement{text: excerpt(cmp.Or(withoutMarkers(s.Title), "Untitled"), quotedText), score: -1}
	}
	out := statement{
		text: excerpt(withoutMarkers(best.spoken()), quotedText), markers: " " + mark(s.ID, exact(best.text)), score: score,
		title: strings.ReplaceAll(excerpt(withoutMarkers(s.Title), quotedText), "*", ""), quoted: best.text, document: s.Type == typeDocument,
	}
	if _, ok := asksOverview(q.message); ok {
		out.text, out.markers = points(s), ""
	}
	return out
}

// best returns the sentence of a source that answers the question best, and its weight. It never
// returns a heading.
func (q question) best(s domain.Citation) (best part, weight int) {
	return bestSentence(s.CitedText, q, func(p part) bool { return !p.heading && withoutMarkers(p.text) != "" })
}

// unfenced replaces the signs that would begin code in an answer.
var unfenced = strings.NewReplacer("`", "'")

// withoutMarkers returns a text on one line, without citation markers and code fences.
func withoutMarkers(text string) string {
	text = strings.Join(strings.Fields(foreignMarkers.ReplaceAllString(text, "")), " ")
	return strings.TrimLeft(unfenced.Replace(text), "~ ") // no code fence may begin here, because markers in code are plain text
}

// exact returns consecutive words of the source. Markers that the source itself contains divide the
// sentence into parts, and exact returns the first part that is long enough. It truncates the part
// to the same length as in the answer.
func exact(sentence string) string {
	for _, part := range foreignMarkers.Split(sentence, -1) {
		if part = strings.TrimSpace(part); utf8.RuneCountInString(part) >= minQuote || part == strings.TrimSpace(sentence) {
			return truncateWords(part, quotedText)
		}
	}
	return ""
}

// mark returns the marker of a source. If quote is empty, the marker contains only the source's
// number.
func mark(id int, quote string) string {
	if quote == "" || strings.ContainsAny(quote, unquotable) {
		return fmt.Sprintf("[%d]", id)
	}
	return fmt.Sprintf("[%d \"%s\"]", id, quote)
}

// sentenceEnd matches the end of a sentence in any script.
var sentenceEnd = regexp.MustCompile(`[.!?…]["”’»)]*(?:\[[^\]\n]*\])*(?:\s+|$)|[。！？｡][」』”]*|[؟۔।॥]\s*|\n+`)

// cutSentence divides a text into its first sentence and the rest. A row of a table is one
// sentence.
func cutSentence(text string) (sentence, rest string) {
	end := len(text)
	if at := sentenceEnd.FindStringIndex(text); at != nil {
		end = at[1]
	}
	if strings.Contains(text[:end], cellEnd) {
		line, _, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
		end = max(end, strings.Index(text, line)+len(line))
	}
	return strings.TrimSpace(text[:end]), text[end:]
}

// firstSentence returns the first sentence of a text, without the white space around it.
func firstSentence(text string) string {
	first, _ := cutSentence(strings.TrimSpace(text))
	return first
}

// question contains the words of a question. If its answer probably has a form, such as a date, the
// question also contains a pattern for that form.
type question struct {
	message string
	words   map[string]bool
	form    *regexp.Regexp
	// Words that a passage of a document must contain; nil for other sources.
	wanted   wanted
	language string // language of the passage that is currently examined
}

// parseQuestion returns the words of a question and the expected form of its answer.
func parseQuestion(message string) question {
	q := question{message: message, words: make(map[string]bool)}
	for _, w := range words(message) {
		q.words[w] = true
	}

	// A sentence with a date answers a question such as "when", even if it shares few words with
	// the question.
	switch {
	case asksWhen.MatchString(message):
		q.form = aDate
	case asksSize.MatchString(message):
		q.form = aNumber
	case asksWho.MatchString(message):
		q.form = aPerson
	}
	return q
}

// expects reports whether the answer has an expected form that is recognized reliably. Names of
// persons are not.
func (q question) expects() bool { return q.form != nil && q.form != aPerson }

// has reports whether a sentence contains the expected form. A year does not count as a size. The
// number in a foreign marker never counts.
func (q question) has(sentence string) bool {
	if q.form == nil {
		return false
	}
	sentence = foreignMarkers.ReplaceAllString(sentence, "")

	if q.form == aNumber {
		sentence = aYear.ReplaceAllString(sentence, "")
	}
	return q.form.MatchString(sentence)
}

// weigh returns the weight of a sentence. words is the number of words of the question that it
// contains. The expected form weighs more than one word. In a table of a document, a row with
// numbers weighs more than the header.
func (q question) weigh(sentence string, words int) int {
	switch {
	case q.has(sentence) && q.expects():
		return 2*words + 3
	case q.has(sentence):
		return 2*words + 1
	case len(q.wanted) > 0 && strings.Contains(sentence, cellEnd) && strings.ContainsFunc(sentence, unicode.IsDigit):
		return 2*words + 1
	}
	return 2 * words
}

// bestSentence returns the first sentence with the highest weight, and the weight. If no sentence
// is allowed, the weight is -1.
func bestSentence(text string, q question, allowed func(part) bool) (best part, weight int) {
	weight = -1
	for p := range parts(text) {
		if !allowed(p) {
			continue
		}
		if n := q.weigh(p.text, q.count(p.text)); n > weight {
			best, weight = p, n
		}
	}
	return best, weight
}

// count returns the number of words of the question that a sentence contains.
func (q question) count(sentence string) int {
	if q.wanted != nil {
		n, _ := q.wanted.in(sentence, q.language)
		return n
	}
	return overlap(words(sentence), q.words)
}

// overlap returns the number of different words in the list have that are also in the set among.
func overlap(have []string, among map[string]bool) int {
	seen := map[string]bool{}
	for _, w := range have {
		if among[w] {
			seen[w] = true
		}
	}
	return len(seen)
}
