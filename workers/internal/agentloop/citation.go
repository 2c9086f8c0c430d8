package agentloop

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// number gives sources their numbers: the one they already have in this run, or the session's next.
func (r *run) number(found []domain.Citation) []domain.Citation {
	if len(found) > maxSources {
		found = found[:maxSources]
	}
	numbered := make([]domain.Citation, 0, len(found))
	next := r.nextSource()
	for _, s := range found {
		s.Title, s.URL, s.CitedText = llm.CleanText(s.Title), llm.CleanText(s.URL), llm.CleanText(s.CitedText)
		s.StartIndex, s.EndIndex = 0, 0
		if numberOf(s, numbered) != 0 {
			continue // the tool found it twice
		}
		if s.ID = numberOf(s, r.sources); s.ID == 0 {
			s.ID = next
			next++
		}
		numbered = append(numbered, s)
	}
	return numbered
}

// nextSource gives the first number that no source of the session has: an answer must
// not seem to cite what an earlier turn, still in the prompt, had under that number.
func (r *run) nextSource() int {
	last := 0
	for _, m := range r.messages {
		if m.Result == nil {
			continue
		}
		for _, s := range m.Result.Sources {
			last = max(last, s.ID)
		}
	}
	return last + 1
}

// numberOf gives the number that a source has in a list, 0 if it is not there.
func numberOf(s domain.Citation, list []domain.Citation) int {
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

// marker is how an answer cites: one number in brackets, or several with commas.
var marker = regexp.MustCompile(`\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]`)

// citations gives the sources that a text cites, in order of their first marker, with its place in code points.
func citations(text string, sources []domain.Citation) []domain.Citation {
	if len(sources) == 0 {
		return nil
	}
	byID := make(map[int]domain.Citation, len(sources))
	for _, s := range sources {
		byID[s.ID] = s
	}
	var cited []domain.Citation
	runes, bytes := 0, 0
	for _, at := range marker.FindAllStringSubmatchIndex(text, -1) {
		runes += utf8.RuneCountInString(text[bytes:at[0]])
		bytes = at[0]
		for field := range strings.SplitSeq(text[at[2]:at[3]], ",") {
			id, err := strconv.Atoi(strings.TrimSpace(field))
			s, ok := byID[id]
			if err != nil || !ok {
				continue
			}
			s.StartIndex, s.EndIndex = runes, runes+utf8.RuneCountInString(text[at[0]:at[1]])
			cited = append(cited, s)
			delete(byID, id)
		}
	}
	return cited
}
