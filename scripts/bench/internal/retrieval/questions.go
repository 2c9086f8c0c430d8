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
	Padded: {
		"please explain to me the way in which %s can be changed", "I have a problem and nothing helps: %s",
		"is there an example of %s somewhere",
	},
}

// Ask makes one question about each of so many sections, spread evenly over the documents.
func Ask(documents []Document, questions int, seed uint64) []Question {
	seen := frequencies(documents)
	type place struct{ document, section int }
	var places []place
	for d, document := range documents {
		for s, section := range document.Sections {
			if rare, common := telling(section, seen); section.askable() && len(rare) >= 4 && len(common) >= 2 {
				places = append(places, place{d, s})
			}
		}
	}
	rng := newRandom(seed)
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

func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // the same each time, on purpose
}

// sections stands for their number among the frequencies of words; it is none.
const sections = "§"

// frequencies says in how many sections each word is.
func frequencies(documents []Document) map[string]int {
	seen := map[string]int{}
	for _, document := range documents {
		for _, section := range document.Sections {
			for _, word := range slices.Compact(slices.Sorted(slices.Values(words(section.Text())))) {
				seen[word]++
			}
			seen[sections]++
		}
	}
	return seen
}

// words are those of letters alone, in small letters.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}

// telling gives the words of a section that questions are made of: those that few others have, neither everywhere nor only here, so
// that no single word answers; and those that many have, for people ask with both.
func telling(section Section, seen map[string]int) (rare, common []string) {
	in := map[string]int{}
	for _, word := range words(section.Text()) {
		in[word]++
	}
	all := seen[sections]
	for word := range in {
		n := seen[word]
		switch {
		case len(word) < 4 || len(word) > 14 || grammatical[word]:
		case n >= 4 && n*20 <= all:
			rare = append(rare, word)
		case n*20 > all:
			common = append(common, word)
		}
	}
	weight := func(word string) float64 { return float64(in[word]) / math.Sqrt(float64(seen[word])) }
	order := func(a, b string) int { return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a, b)) }
	slices.SortFunc(rare, order)
	slices.SortFunc(common, order)
	return rare[:min(len(rare), 12)], common[:min(len(common), 12)]
}

// grammatical words are in nearly every text, and nobody asks about them.
var grammatical = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`about after also because been before being between both could does each from have into itself
		more most must only other over same should some such than that their them then there these they this those through under
		until very were what when where which while will with within without would your`) {
		set[word] = true
	}
	return set
}()

func question(rng *rand.Rand, kind string, section Section, seen map[string]int) string {
	rare, common := telling(section, seen)
	chosen := some(rng, rare, 2+rng.IntN(2))
	chosen = append(chosen, some(rng, common, 1+rng.IntN(2))...)
	rng.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
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

// some gives so many of the words, any.
func some(rng *rand.Rand, from []string, n int) []string {
	rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return slices.Clone(from[:min(len(from), n)])
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
