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

// longestSupported bounds, in bytes, the words before a marker by which one of the source's sentences is chosen: those next
// to it, where a sentence goes on for longer.
const longestSupported = 4000

// longWord is the length from which on words count the same.
const longWord = 8

// passage is what the model was given of a source.
type passage struct {
	source domain.Citation
	folded *folding // nil until a quote is looked for
	parts  []part   // nil until a quote is chosen
}

// part is a sentence of a passage, or a piece of a long one.
type part struct {
	extent
	terms map[string]bool
}

// passages are the sources of a run by their numbers.
type passages map[int]*passage

// check looks the quotes of a marker up; without any, the marker holds if there is something to choose one from.
func (p passages) check(number int, quotes []string) (found string, missed int, ok bool) {
	from := p[number]
	if from == nil || !hasWords(from.source.CitedText) {
		return "", max(1, len(quotes)), false
	}
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

// choose gives the words of a passage that have most in common with those that they are to support: a sentence, with
// the one beside it that adds as much again. Terms count the more, the longer they are and the fewer sentences of the
// passage have them, and numbers most: in every language the short and frequent words say least.
func (p *passage) choose(supported string) string {
	if p.parts == nil {
		p.parts = split(p.source.CitedText)
	}
	if len(supported) > longestSupported {
		supported = strings.ToValidUTF8(supported[len(supported)-longestSupported:], "")
	}
	weights := p.weigh(terms(supported))
	best, maximum := 0, 0
	for i, one := range p.parts {
		if score := one.score(weights, nil); score > maximum {
			best, maximum = i, score
		}
	}
	chosen := p.parts[best].extent
	for _, i := range []int{best - 1, best + 1} {
		if i < 0 || i >= len(p.parts) || maximum == 0 || p.parts[i].score(weights, p.parts[best].terms) < maximum {
			continue
		}
		both := extent{min(chosen.from, p.parts[i].from), max(chosen.to, p.parts[i].to)}
		if utf8.RuneCountInString(p.source.CitedText[both.from:both.to]) <= longestQuote {
			chosen = both
			break
		}
	}
	return p.source.CitedText[chosen.from:chosen.to]
}

// weigh gives the wanted terms that the passage has, with what each counts.
func (p *passage) weigh(wanted map[string]bool) map[string]int {
	weights := make(map[string]int, len(wanted))
	for term := range wanted {
		n := 0
		for _, one := range p.parts {
			if one.terms[term] {
				n++
			}
		}
		if n > 0 {
			weights[term] = 1000 * worth(term) / n
		}
	}
	return weights
}

// worth is what a term counts by itself.
func worth(term string) int {
	if strings.IndexFunc(term, unicode.IsNumber) >= 0 {
		return longWord
	}
	return min(utf8.RuneCountInString(term), longWord)
}

// score sums what the terms count that a part has and another lacks.
func (p part) score(weights map[string]int, without map[string]bool) int {
	sum := 0
	for term, weight := range weights {
		if p.terms[term] && !without[term] {
			sum += weight
		}
	}
	return sum
}

// split cuts a passage into sentences, and those into pieces that a citation may show.
func split(text string) []part {
	var parts []part
	for it := sentences.FromString(text); it.Next(); {
		for at := it.Start(); at < it.End(); {
			next := at + cut(text[at:it.End()], longestQuote)
			piece := text[at:next]
			from := at + len(piece) - len(strings.TrimLeftFunc(piece, unicode.IsSpace))
			to := from + len(strings.TrimSpace(piece))
			if at = next; hasWords(text[from:to]) {
				parts = append(parts, part{extent: extent{from, to}, terms: terms(text[from:to])})
			}
		}
	}
	return parts
}

// terms gives what texts are compared by: words in small letters and, of scripts that put no space between words,
// characters by twos.
func terms(text string) map[string]bool {
	text = strings.ToLower(norm.NFKC.String(text))
	found := map[string]bool{}
	last := "" // the character before, in such a script
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
				found[word] = true // all there is
			}
		}
	}
	return found
}

// unspaced reports whether a word is of a script without spaces between words.
func unspaced(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
