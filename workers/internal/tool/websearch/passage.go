package websearch

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"

	"parley/shared/truncate"
)

// Sizes of passages in characters, and the number of passages per page.
const (
	maxPassage  = 1500
	goodPassage = 900 // length from which a passage grows only by sentences that match the query
	minPassage  = 300 // minimum length of a passage, because shorter passages are hard to understand without their context
	maxPassages = 2
	maxSentence = 500 // longer sentences are split at spaces
)

// worthwhile is the minimum weight of a sentence at which a passage may begin, relative to the
// weight of the best sentence.
const worthwhile = 0.35

// sentence is a sentence, a line that is not a sentence, or a part of a very long sentence or line.
// It has no white space at its ends. The sentences of a text are in order and do not overlap.
type sentence struct {
	start, end int // position in bytes
	from, to   int // position in characters
	// paragraph is the number of empty lines before the sentence.
	paragraph int
	weight    float64 // how well the sentence matches the query
}

// span is a range of sentences from first to last, inclusive.
type span struct{ first, last int }

// passages returns the parts of a text that match a query best, the best first. If no part matches,
// it returns the beginning of the text. Each passage is an exact part of the text.
//
// A text of at most maxPassage characters is one passage. Otherwise there are at most maxPassages,
// which do not overlap.
func passages(text, query string) []string {
	if text == "" {
		return nil
	}
	if utf8.RuneCountInString(text) <= maxPassage {
		return []string{text}
	}

	all := split(text)
	scoreSentences(text, all, newTerms(query))

	var spans []span
	for range maxPassages {
		best, ok := center(all, spans)
		if !ok {
			break
		}
		spans = append(spans, grow(all, span{best, best}, spans))
	}

	if len(spans) == 0 {
		spans = []span{grow(all, span{0, 0}, nil)}
	}

	// Adjacent passages are merged, because a longer passage is easier to understand.
	spans = merge(all, spans)
	found := make([]string, 0, len(spans))
	for _, s := range spans {
		found = append(found, text[all[s.first].start:all[s.last].end])
	}
	return found
}

// split splits a text into lines and sentences, in any script. Sentence boundaries are those of
// Unicode. A sentence that is longer than maxSentence characters is split further.
func split(text string) []sentence {
	var all []sentence
	at, characters, paragraph := 0, 0, 0
	for l := range strings.SplitAfterSeq(text, "\n") {
		if strings.TrimSpace(l) == "" {
			paragraph++
		}
		for it := sentences.FromString(l); it.Next(); {
			for _, part := range pieces(it.Value()) {
				all = appendSentence(all, part, at, characters, paragraph)
				at += len(part)
				characters += utf8.RuneCountInString(part)
			}
		}
	}
	return all
}

// appendSentence appends a part of a text as a sentence, without white space at its beginning and
// end. The arguments at and characters are the position of the part in bytes and in characters. A
// part without text is not appended.
func appendSentence(all []sentence, part string, at, characters, paragraph int) []sentence {
	inner := strings.TrimLeftFunc(part, unicode.IsSpace)
	before := len(part) - len(inner)
	inner = strings.TrimRightFunc(inner, unicode.IsSpace)
	if inner == "" {
		return all
	}
	from := characters + utf8.RuneCountInString(part[:before])
	return append(all, sentence{
		start: at + before, end: at + before + len(inner),
		from: from, to: from + utf8.RuneCountInString(inner), paragraph: paragraph,
	})
}

// pieces splits a very long sentence into pieces of about maxSentence characters, at spaces if
// possible. Together, the pieces are the whole sentence.
func pieces(s string) []string {
	var parts []string
	for {
		end := len(truncate.Runes(s, maxSentence))
		if i := strings.LastIndexByte(s[:end], ' '); end < len(s) && i > end/2 {
			end = i + 1
		}
		for i, r := range s[end:min(len(s), end+64)] { // a combining mark must stay with its letter
			if !unicode.In(r, unicode.M, unicode.Cf) {
				end += i
				break
			}
		}
		parts = append(parts, s[:end])
		if s = s[end:]; s == "" {
			return parts
		}
	}
}

// scoreSentences computes how well each sentence matches a query, using BM25. Each sentence of the
// text counts as a document. scoreSentences sets the weight of each sentence. The weight is 0 if
// the sentence does not match.
func scoreSentences(text string, all []sentence, query terms) {
	const saturation, lengthPart = 1.2, 0.3
	found := make([][]match, len(all))
	lengths, sum := make([]float64, len(all)), 0.0
	having := make([]float64, len(query.exact)) // number of sentences that contain each word of the query

	for i, s := range all {
		found[i], lengths[i] = query.count(text[s.start:s.end])
		sum += lengths[i]
		for _, m := range found[i] {
			having[m.word]++
		}
	}

	// The fewer sentences contain a word, the more weight the word has. Long sentences have a
	// slight disadvantage.
	n, mean := float64(len(all)), max(sum/float64(len(all)), 1)
	for i := range all {
		for _, m := range found[i] {
			rare := math.Log(1 + (n-having[m.word]+0.5)/(having[m.word]+0.5))
			all[i].weight += rare * m.times * (saturation + 1) / (m.times + saturation*(1-lengthPart+lengthPart*lengths[i]/mean))
		}
	}
}

// center returns the best matching sentence outside of the given spans, rated together with its
// neighbours. It returns false if no such sentence matches, or if its rating is below worthwhile
// times the best rating in the whole text.
func center(all []sentence, spans []span) (int, bool) {
	best, score, top := -1, 0.0, 0.0
	for i := range all {
		w := all[i].weight
		if w == 0 {
			continue
		}
		if i > 0 {
			w += 0.4 * all[i-1].weight
		}
		if i+1 < len(all) {
			w += 0.4 * all[i+1].weight
		}
		top = max(top, w)
		if w > score && !inside(i, spans) {
			best, score = i, w
		}
	}
	return best, best >= 0 && score >= worthwhile*top
}

// inside reports whether the sentence with the index i belongs to one of the spans.
func inside(i int, spans []span) bool {
	for _, s := range spans {
		if i >= s.first && i <= s.last {
			return true
		}
	}
	return false
}

// grow adds adjacent sentences to a span while they match the query or are needed as context. The
// span does not exceed maxPassage characters and does not overlap the spans in the list others.
//
// Below minPassage characters, a span also grows by sentences without any benefit. From goodPassage
// characters on, it grows only by sentences that match.
func grow(all []sentence, s span, others []span) span {
	for {
		// If both neighbours are equally good, the following sentence is added, because it usually
		// explains more.
		next, gain := neighbour(all, s, s.last+1, others)
		if before, more := neighbour(all, s, s.first-1, others); more > gain {
			next, gain = before, more
		}
		has := size(all, s)
		if gain < 0 || gain == 0 && has >= minPassage || has >= goodPassage && all[next].weight == 0 {
			return s
		}
		s = include(s, next)
	}
}

// neighbour returns the benefit of adding the sentence with the index i to a span. The benefit is
// negative if the sentence cannot be added. A sentence of the same paragraph has a small benefit
// even if it does not match.
func neighbour(all []sentence, s span, i int, others []span) (at int, gain float64) {
	if i < 0 || i >= len(all) || inside(i, others) || size(all, include(s, i)) > maxPassage {
		return i, -1
	}
	gain = all[i].weight
	if all[i].paragraph == all[s.first].paragraph || all[i].paragraph == all[s.last].paragraph {
		gain += 0.1
	}
	return i, gain
}

// include extends a span to the sentence with the index i.
func include(s span, i int) span { return span{min(s.first, i), max(s.last, i)} }

// size returns the length of a span in characters.
func size(all []sentence, s span) int { return all[s.last].to - all[s.first].from }

// merge joins two adjacent spans, unless the resulting span would be too long. Other spans are
// returned unchanged.
func merge(all []sentence, spans []span) []span {
	if len(spans) != 2 {
		return spans
	}
	a, b := spans[0], spans[1]
	if a.last+1 != b.first && b.last+1 != a.first {
		return spans
	}
	if both := include(include(a, b.first), b.last); size(all, both) <= maxPassage {
		return []span{both}
	}
	return spans
}
