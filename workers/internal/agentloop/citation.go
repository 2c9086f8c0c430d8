package agentloop

import (
	"context"
	"slices"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// maxCitations is the maximum number of citations of a run. Without it, a model could produce a
// huge result: a marker costs the model three characters, but its citation quotes up to maxQuote
// characters.
const maxCitations = 500

// maxEarlierNumber is the highest source number that readEarlier accepts in earlier answers. A
// higher number is not a citation. The limit also bounds the numbers of new sources, which must
// have at most maxNumberDigits digits.
const maxEarlierNumber = 99_999

// readChunk is the number of bytes of an earlier answer that are read before the context is checked
// again.
const readChunk = 64 << 10

// known contains the sources that the answer of a run may cite: those of attached documents, of
// tool results, and of rounds of client calls. It grows during the run.
type known struct {
	turns    []Turn // the earlier turns of the session
	sources  []domain.Citation
	passages passages // the sources by number
	earlier  int      // highest source number in the earlier turns; negative before the first call of readEarlier
}

// add adds sources that already have numbers.
func (k *known) add(sources []domain.Citation) {
	// If a later tool call returns a known source again, keep the passage of the first call.
	for _, source := range sources {
		if k.passages[source.ID] == nil {
			k.sources = append(k.sources, source)
			k.passages[source.ID] = &passage{source: source}
		}
	}
}

// number assigns numbers to the sources that a tool returned. A source that the run already has
// keeps its number. Any other source gets the next number of the session. The caller must call
// readEarlier first.
func (k *known) number(found []domain.Citation) []domain.Citation {
	if len(found) > maxSources {
		found = found[:maxSources]
	}
	numbered := make([]domain.Citation, 0, len(found))
	next := 0
	for _, s := range found {
		s.Title, s.URL, s.CitedText = llm.CleanText(s.Title), llm.CleanText(s.URL), llm.CleanText(s.CitedText)
		// Clear the offsets, because they describe a position in an answer and not the source
		// itself.
		s.StartIndex, s.EndIndex = 0, 0
		if numberFor(s, numbered) != 0 {
			continue // the tool returned this source twice
		}
		if s.ID = numberFor(s, k.sources); s.ID == 0 {
			if next == 0 {
				next = k.nextSource()
			}
			s.ID = next
			next++
		}
		numbered = append(numbered, s)
	}
	return numbered
}

// nextSource returns the first unused source number of the session. Numbers in earlier answers are
// not reused, because these answers are still in the prompt.
func (k *known) nextSource() int {
	last := k.earlier
	for _, s := range k.sources {
		last = max(last, s.ID)
	}
	return last + 1
}

// readEarlier sets k.earlier to the highest source number in the session's earlier turns. It checks
// ctx while it reads, because a history may be long.
func (k *known) readEarlier(ctx context.Context) error {
	if k.earlier >= 0 {
		return nil
	}

	// Pass the earlier answers through a filter, like new answers, so that brackets in code do not
	// count as citations.
	last := 0
	// The filter calls note for each marker. note accepts every marker and only records its number.
	note := func(number int, _ []string) (string, int, bool) {
		if number <= maxEarlierNumber {
			last = max(last, number)
		}
		return "", 0, true
	}
	for _, t := range k.turns {
		for _, m := range t.Messages {
			if m.Role == llm.RoleAssistant {
				answer := newFilter(note, func(string) {})
				for part := range slices.Chunk([]byte(m.Text), readChunk) {
					if ctx.Err() != nil {
						return stopped(ctx)
					}
					answer.write(string(part))
				}
				answer.finish()
			}
			if m.Result == nil {
				continue
			}
			for _, s := range m.Result.Sources {
				last = max(last, s.ID)
			}
		}
	}

	k.earlier = last
	return nil
}

// numberFor returns the number of the source s in list, or 0 if list does not contain s.
func numberFor(s domain.Citation, list []domain.Citation) int {
	for _, k := range list {
		if k.Type == s.Type && k.URL == s.URL && k.CitedText == s.CitedText && same(k.DocumentID, s.DocumentID) && same(k.Page, s.Page) {
			return k.ID
		}
	}
	return 0
}

// same reports whether both pointers are nil or point to equal values.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// citationCheck returns the function that checks the markers of one model call. This function is
// passages.check until the run has maxCitations citations. After that, the function rejects every
// marker.
func (r *run) citationCheck() func(number int, quotes []string) (quote string, missed int, ok bool) {
	left := maxCitations - len(r.out.Citations)
	return func(number int, quotes []string) (string, int, bool) {
		if left <= 0 {
			return "", max(1, len(quotes)), false
		}

		quote, missed, ok := r.passages.check(number, quotes)
		if ok {
			left--
		}
		return quote, missed, ok
	}
}

// citations returns one citation for each marker that the filter has kept in a text, in the order
// of the markers. The argument offset is the number of characters of the whole message before the
// text. StartIndex and EndIndex of a citation are character offsets in that message. A marker
// without a quote gets the sentence of its source that fits best.
func (p passages) citations(text string, marks []mark, offset int) []domain.Citation {
	var cited []domain.Citation
	words := supports(text, marks)
	runes := runeCounter{text: text}
	type choice struct {
		number int
		words  extent
	}

	// If several markers cite the same source for the same words, choose the sentence only once,
	// because choose is expensive.
	chosen := map[choice]string{}
	for i, m := range marks {
		if m.number == 0 {
			continue
		}
		c := p[m.number].source
		if c.CitedText = m.quote; m.quote == "" {
			this := choice{m.number, words[i]}
			if chosen[this] == "" {
				chosen[this] = p[m.number].choose(text[words[i].from:words[i].to])
			}
			c.CitedText = chosen[this]
		}
		c.StartIndex = offset + runes.at(words[i].from)
		c.EndIndex = offset + runes.at(words[i].to)
		cited = append(cited, c)
	}
	return cited
}

// runeCounter converts byte offsets of a text to character offsets. It keeps its last two results
// and counts from the nearer one, because successive offsets are close to each other.
type runeCounter struct {
	text string
	last [2]position // the last two results, the latest first
}

// position is an offset in a text, counted both in bytes and in characters.
type position struct{ bytes, runes int }

// at returns the character offset that corresponds to a byte offset.
func (c *runeCounter) at(bytes int) int {
	from := c.last[0]
	if distance(c.last[1].bytes, bytes) < distance(from.bytes, bytes) {
		from = c.last[1]
	}
	next := position{bytes, from.runes}
	if bytes < from.bytes {
		next.runes -= utf8.RuneCountInString(c.text[bytes:from.bytes])
	} else {
		next.runes += utf8.RuneCountInString(c.text[from.bytes:bytes])
	}
	c.last = [2]position{next, c.last[0]}
	return next.runes
}

// distance returns the absolute difference of two offsets.
func distance(a, b int) int { return max(a-b, b-a) }
