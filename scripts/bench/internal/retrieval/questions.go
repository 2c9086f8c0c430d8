package retrieval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
)

// Question is a text to search for, and the section that answers it.
type Question struct {
	Text     string
	Document string // its name
	Section  int    // in the document
}

// Ask creates a question about each of several sections, which are spread evenly over the
// documents; questions is their number. Every other question contains a typing error.
func Ask(documents []Document, questions int, seed uint64) []Question {
	seen := frequencies(documents)
	type place struct{ document, section int }
	var places []place
	for d, document := range documents {
		for s, section := range document.Sections {
			if rare, common := keywords(section, seen); section.askable() && len(rare) >= 4 && len(common) >= 2 {
				places = append(places, place{d, s})
			}
		}
	}

	rng := newRandom(seed)
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	var all []Question
	for n, at := range places[:min(questions, len(places))] {
		document := documents[at.document]
		text := question(rng, document.Sections[at.section], seen, n%2 == 1)
		all = append(all, Question{Text: text, Document: document.Name, Section: at.section})
	}
	return all
}

func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // intentionally the same questions each time
}

// sections is the key under which the map of frequencies contains the number of sections. It cannot
// be a word.
const sections = "§"

// frequencies counts the sections that contain each word.
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

// words returns the lower-case words of a text, which consist of letters only.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}

// keywords returns the words of a section for its question. Rare words occur in a few other
// sections, so that no single word identifies the section. Common words are included because people
// use them.
func keywords(section Section, seen map[string]int) (rare, common []string) {
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

// grammatical contains words that occur in nearly every text and that no question uses.
var grammatical = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`about after also because been before being between both could does each from have into itself
		more most must only other over same should some such than that their them then there these they this those through under
		until very were what when where which while will with within without would your`) {
		set[word] = true
	}
	return set
}()

// question reorders words of a section. If mistyped is set, its longest word contains a typing
// error.
func question(rng *rand.Rand, section Section, seen map[string]int, mistyped bool) string {
	rare, common := keywords(section, seen)
	chosen := append(pick(rng, rare, 2+rng.IntN(2)), pick(rng, common, 1+rng.IntN(2))...)
	rng.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	if mistyped {
		longest := slices.MaxFunc(chosen, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		at := slices.Index(chosen, longest)
		chosen[at] = mistype(rng, longest)
	}
	return strings.Join(chosen, " ")
}

// pick returns n random words.
func pick(rng *rand.Rand, from []string, n int) []string {
	rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return slices.Clone(from[:min(len(from), n)])
}

// mistype mistypes a word: it omits or doubles a letter, or swaps it with its neighbour. The first letter stays.
func mistype(rng *rand.Rand, word string) string {
	at := 1 + rng.IntN(len(word)-2)
	switch rng.IntN(3) {
	case 0:
		return word[:at] + word[at+1:]
	case 1:
		return word[:at] + word[at:at+1] + word[at:]
	}
	return word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:]
}
