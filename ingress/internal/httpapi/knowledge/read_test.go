package knowledge

import (
	"testing"

	"parley/shared/domain"
)

func TestTextOfPassages(t *testing.T) {
	t.Parallel()
	p := func(start int, text string) domain.Passage {
		return domain.Passage{Text: text, StartIndex: start, EndIndex: start + len([]rune(text))}
	}
	for want, passages := range map[string][]domain.Passage{
		"":           nil,
		"ä\nb":       {p(0, "ä"), p(2, "b")},
		"a":          {p(3, "a")},
		"abcd":       {p(0, "abc"), p(1, "bcd")},
		"xyz":        {p(0, "xyz"), p(0, "xyz"), p(1, "y")},
		"one\n\ntwo": {p(0, "one"), p(5, "two")},
	} {
		if got := textFor(passages); got != want {
			t.Errorf("%v: %q, want %q", passages, got, want)
		}
	}
}
