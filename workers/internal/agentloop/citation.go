package agentloop

import (
	"context"
	"slices"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// maxCitations bounds the citations of a run. Each shows up to longestQuote characters, and one mark costs the model three.
const maxCitations = 500

// highestEarlier bounds the numbers of earlier answers that count: a longer one is no citation, and would leave no
// room for those to come.
const highestEarlier = 99_999

// readAtOnce is how many bytes of an earlier answer are read between looks at the time.
const readAtOnce = 64 << 10

// number gives sources their numbers: the one they already have in this run, or the session's next, for which the earlier
// turns must have been read.
func (r *run) number(found []domain.Citation) []domain.Citation {
	if len(found) > maxSources {
		found = found[:maxSources]
	}
	numbered := make([]domain.Citation, 0, len(found))
	next := 0
	for _, s := range found {
		s.Title, s.URL, s.CitedText = llm.CleanText(s.Title), llm.CleanText(s.URL), llm.CleanText(s.CitedText)
		s.StartIndex, s.EndIndex = 0, 0
		if numberFor(s, numbered) != 0 {
			continue // the tool found it twice
		}
		if s.ID = numberFor(s, r.sources); s.ID == 0 {
			if next == 0 {
				next = r.nextSource()
			}
			s.ID = next
			next++
		}
		numbered = append(numbered, s)
	}
	return numbered
}

// nextSource gives the first number that no source of the session has: an answer must
// not seem to cite what an earlier one, still in the prompt, had under that number.
func (r *run) nextSource() int {
	last := r.earlier
	for _, s := range r.sources {
		last = max(last, s.ID)
	}
	return last + 1
}

// readEarlier finds the highest number that the session's earlier turns cite, or had a source under. A history may be
// long, and the run's time over meanwhile.
func (r *run) readEarlier(ctx context.Context) error {
	if r.earlier >= 0 {
		return nil
	}
	last := 0
	note := func(number int, _ []string) (string, int, bool) {
		if number <= highestEarlier {
			last = max(last, number)
		}
		return "", 0, true
	}
	for _, t := range r.in.History {
		for _, m := range t.Messages {
			if m.Role == llm.RoleAssistant {
				answer := newFilter(note, func(string) {})
				for part := range slices.Chunk([]byte(m.Text), readAtOnce) {
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
	r.earlier = last
	return nil
}

// numberFor gives the number that a source has in a list, 0 if it is not there.
func numberFor(s domain.Citation, list []domain.Citation) int {
	for _, k := range list {
		if k.Type == s.Type && k.URL == s.URL && k.CitedText == s.CitedText && same(k.DocumentID, s.DocumentID) && same(k.Page, s.Page) {
			return k.ID
		}
	}
	return 0
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// citationCheck returns the check of one model call's markers: passages.check until the run has maxCitations. Further markers
// are removed from the text and counted, as those are that do not hold.
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

// citations gives one citation for each marker of a filtered text that begins at the character offset of the message.
func (p passages) citations(text string, marks []mark, offset int) []domain.Citation {
	var cited []domain.Citation
	words := supports(text, marks)
	runes := countedTo{text: text}
	type choice struct {
		number int
		words  extent
	}
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

// countedTo counts a text's characters; of two places asked for in turn, mostly one of those before is asked for again, or
// what is behind it.
type countedTo struct {
	text string
	last [2]place // the one asked for last, and the one before
}

// place is one in a text, in both units.
type place struct{ bytes, runes int }

func (c *countedTo) at(bytes int) int {
	from := c.last[0]
	if away(c.last[1].bytes, bytes) < away(from.bytes, bytes) {
		from = c.last[1]
	}
	next := place{bytes, from.runes}
	if bytes < from.bytes {
		next.runes -= utf8.RuneCountInString(c.text[bytes:from.bytes])
	} else {
		next.runes += utf8.RuneCountInString(c.text[from.bytes:bytes])
	}
	c.last = [2]place{next, c.last[0]}
	return next.runes
}

func away(a, b int) int { return max(a-b, b-a) }
