package agentloop

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"

	"parley/shared/domain"
)

// maxSupported is the maximum number of bytes of the supported words that the method choose
// compares with the source. If the words are longer, choose uses only their end, which is next to
// the marker.
const maxSupported = 4000

// longWord is a number of characters. All words with at least this length have the same weight.
const longWord = 8

// passage is the text of a source as the model received it. Its indexes are computed when they are
// first needed and then kept, because most sources are never cited.
type passage struct {
	source domain.Citation
	folded *foldedText // nil until a quote is looked up
	parts  []segment   // nil until a quote is chosen

	numbers map[string]string // maps the amount of each number in the text to its spelling; nil until a number is looked up
}

// segment is a sentence of a passage, or a piece of a long sentence.
type segment struct {
	extent
	terms map[string]bool
}

// passages contains the sources of a run by their source numbers.
type passages map[int]*passage

// check looks up the quotes of a marker in the source with the given number. found is the first of
// the quotes that the source contains. missed is the number of quotes that the source does not
// contain. If the source does not exist or contains no word, missed is at least 1. A marker without
// quotes is valid if the source contains any word.
func (p passages) check(number int, quotes []string) (found string, missed int, ok bool) {
	from := p[number]
	if from == nil || !hasWords(from.source.CitedText) {
		return "", max(1, len(quotes)), false
	}

	// Ignore quotes that contain only white space.
	given := 0
	for _, quote := range quotes {
		if strings.TrimSpace(quote) == "" {
			continue
		}
		given++
		if from.folded == nil {
			f := fold(from.source.CitedText)
			from.folded = &f
		}
		switch words := from.folded.find(quote); {
		case words == "":
			missed++
		case found == "":
			found = words
		}
	}
	return found, missed, given == 0 || found != ""
}

// choose compares the sentences with the text in the argument supported. It returns the sentence
// whose shared terms have the greatest total weight. If no sentence shares a term, it returns the
// first sentence. It adds a neighbouring sentence if the additional terms of that sentence weigh at
// least as much, and if both sentences together have at most maxQuote characters. A term weighs
// more if it is long and occurs in few sentences, and numbers weigh most. In every language, short
// and frequent words carry the least information.
func (p *passage) choose(supported string) string {
	if p.parts == nil {
		p.parts = split(p.source.CitedText)
	}
	if len(supported) > maxSupported {
		supported = strings.ToValidUTF8(supported[len(supported)-maxSupported:], "")
	}

	weights := p.weigh(terms(supported))
	best, maximum := 0, 0
	for i, one := range p.parts {
		if score := one.score(weights, nil); score > maximum {
			best, maximum = i, score
		}
	}

	// A fact is often stated by two sentences together, so try both neighbours.
	chosen := p.parts[best].extent
	for _, i := range []int{best - 1, best + 1} {
		if i < 0 || i >= len(p.parts) || maximum == 0 || p.parts[i].score(weights, p.parts[best].terms) < maximum {
			continue
		}
		both := extent{min(chosen.from, p.parts[i].from), max(chosen.to, p.parts[i].to)}
		if utf8.RuneCountInString(p.source.CitedText[both.from:both.to]) <= maxQuote {
			chosen = both
			break
		}
	}
	return p.source.CitedText[chosen.from:chosen.to]
}

// weigh returns the weights of those wanted terms that occur in the passage.
func (p *passage) weigh(wanted map[string]bool) map[string]int {
	weights := make(map[string]int, len(wanted))
	for term := range wanted {
		n := 0
		for _, one := range p.parts {
			if one.terms[term] {
				n++
			}
		}
		// A term that occurs in many sentences says little about any of them.
		if n > 0 {
			weights[term] = 1000 * termWeight(term) / n
		}
	}
	return weights
}

// termWeight returns the weight of a term that occurs in a single sentence.
func termWeight(term string) int {
	if strings.IndexFunc(term, unicode.IsNumber) >= 0 {
		return longWord
	}
	return min(utf8.RuneCountInString(term), longWord)
}

// score returns the total weight of the terms that occur in p. It does not count the terms in the
// argument without.
func (p segment) score(weights map[string]int, without map[string]bool) int {
	sum := 0
	for term, weight := range weights {
		if p.terms[term] && !without[term] {
			sum += weight
		}
	}
	return sum
}

// split divides a passage into sentences. It divides long sentences into pieces of at most maxQuote
// characters.
func split(text string) []segment {
	var parts []segment
	for it := sentences.FromString(text); it.Next(); {
		for at := it.Start(); at < it.End(); {
			next := at + truncatedLen(text[at:it.End()], maxQuote)
			piece := text[at:next]
			from := at + len(piece) - len(strings.TrimLeftFunc(piece, unicode.IsSpace))
			to := from + len(strings.TrimSpace(piece))
			if at = next; hasWords(text[from:to]) {
				parts = append(parts, segment{extent: extent{from, to}, terms: terms(text[from:to])})
			}
		}
	}
	return parts
}

// terms returns the terms of a text for comparison. A term is a word in lower case or, in scripts
// without spaces between words, a pair of characters.
func terms(text string) map[string]bool {
	text = strings.ToLower(norm.NFKC.String(text))
	found := map[string]bool{}
	last := "" // the previous character, if it belongs to a script without spaces between words
	for it := words.FromString(text); it.Next(); {
		word := it.Value()
		switch {
		case !hasWords(word):
			last = ""
		case !unspaced(word):
			found[word] = true
			last = ""
		default:
			for _, r := range word {
				if last != "" {
					found[last+string(r)] = true
				}
				last = string(r)
			}
			if utf8.RuneCountInString(word) == 1 && len(text) == len(word) {
				found[word] = true // the word consists of a single character, so it contains no pairs
			}
		}
	}
	return found
}

// unspaced reports whether a word is in a script without spaces between words.
func unspaced(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
