package retrieval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
)

// Question is something to search for, and the section that answers it.
type Question struct {
	Text     string
	Kind     string
	Document string // its name
	Section  int    // in the document
}

// The kinds of questions, in turn.
const (
	Plain     = "plain"     // words of the section, in another order
	Inflected = "inflected" // in another form each, where there is one
	Mistyped  = "mistyped"  // one of them with a slip
	Padded    = "padded"    // among words that say nothing of the section
)

var kinds = []string{Plain, Inflected, Mistyped, Padded}

// Kinds lists the kinds of questions.
func Kinds() []string { return slices.Clone(kinds) }

// templates hold the words of a question.
var templates = map[string][]string{
	Plain:     {"%s", "how does %s work", "what does %s mean"},
	Inflected: {"how do I get %s", "when is %s used", "%s"},
	Mistyped:  {"%s", "what is %s", "where is %s set"},
	Padded:    {"please explain to me the way in which %s can be changed", "I have a problem and nothing helps: %s", "is there an example of %s somewhere"},
}

// Ask makes one question about each of so many sections, spread evenly over the documents.
func Ask(documents []Document, questions int, seed uint64) []Question {
	seen := frequencies(documents)
	type place struct{ document, section int }
	var places []place
	for d, document := range documents {
		for s, section := range document.Sections {
			if section.askable() && len(telling(section, seen)) >= 4 {
				places = append(places, place{d, s})
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // the same each time, on purpose
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	var all []Question
	for n, at := range places[:min(questions, len(places))] {
		document := documents[at.document]
		kind := kinds[n%len(kinds)]
		text := question(rng, kind, document.Sections[at.section], seen)
		all = append(all, Question{Text: text, Kind: kind, Document: document.Name, Section: at.section})
	}
	return all
}

// frequencies says in how many sections each word is.
func frequencies(documents []Document) map[string]int {
	seen := map[string]int{}
	for _, document := range documents {
		for _, section := range document.Sections {
			for _, word := range slices.Compact(slices.Sorted(slices.Values(words(section.Text())))) {
				seen[word]++
			}
		}
	}
	return seen
}

// words are those of letters alone, in small letters.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}

// telling words are those of a section that few others have: neither everywhere nor only here, so that a question is neither about
// everything nor answered by a single word. The rarest come first.
func telling(section Section, seen map[string]int) []string {
	in := map[string]int{}
	for _, word := range words(section.Text()) {
		in[word]++
	}
	var found []string
	for word := range in {
		if n := seen[word]; len(word) >= 4 && len(word) <= 14 && n >= 4 && n <= 400 {
			found = append(found, word)
		}
	}
	weight := func(word string) float64 { return float64(in[word]) / math.Sqrt(float64(seen[word])) }
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a, b))
	})
	return found[:min(len(found), 12)]
}

func question(rng *rand.Rand, kind string, section Section, seen map[string]int) string {
	from := telling(section, seen)
	rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	chosen := slices.Clone(from[:min(len(from), 3+rng.IntN(3))])
	switch kind {
	case Inflected:
		for i := range chosen {
			chosen[i] = inflect(rng, chosen[i])
		}
	case Mistyped:
		at := 0
		for i := range chosen {
			if len(chosen[i]) > len(chosen[at]) {
				at = i
			}
		}
		chosen[at] = slip(rng, chosen[at])
	}
	for range 10 { // the words must not stand in the section like that
		if !quoted(section, chosen) {
			break
		}
		rng.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	}
	template := templates[kind][rng.IntN(len(templates[kind]))]
	return strings.Replace(template, "%s", strings.Join(chosen, " "), 1)
}

// quoted says whether three words of a question follow each other in the section.
func quoted(section Section, chosen []string) bool {
	text := " " + strings.Join(words(section.Text()), " ") + " "
	for i := 0; i+3 <= len(chosen); i++ {
		if strings.Contains(text, " "+strings.Join(chosen[i:i+3], " ")+" ") {
			return true
		}
	}
	return false
}

// inflect gives an English word another ending, by rule: what comes out is how it would be written, were it regular.
func inflect(rng *rand.Rand, word string) string {
	bare := strings.TrimSuffix(word, "e")
	switch {
	case strings.HasSuffix(word, "ing") && len(word) > 6:
		return strings.TrimSuffix(word, "ing") + "ed"
	case strings.HasSuffix(word, "ed") && len(word) > 5:
		return strings.TrimSuffix(word, "ed") + "ing"
	case strings.HasSuffix(word, "ies") && len(word) > 5:
		return strings.TrimSuffix(word, "ies") + "y"
	case strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss"):
		return strings.TrimSuffix(word, "s")
	case strings.HasSuffix(word, "y"):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return []string{word + "s", bare + "ing", bare + "ed"}[rng.IntN(3)]
}

// slip mistypes a word: a letter is left out, doubled, or changes places with its neighbour. The first one stays.
func slip(rng *rand.Rand, word string) string {
	at := 1 + rng.IntN(len(word)-2)
	switch rng.IntN(3) {
	case 0:
		return word[:at] + word[at+1:]
	case 1:
		return word[:at] + word[at:at+1] + word[at:]
	}
	return word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:]
}
