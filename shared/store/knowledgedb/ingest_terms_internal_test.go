package knowledgedb

import (
	"fmt"
	"slices"
	"testing"
)

func termsFor(lexemes ...string) (out []Term) {
	for _, l := range lexemes {
		out = append(out, Term{Lexeme: l})
	}
	return out
}

func TestFrequentTerms(t *testing.T) {
	t.Parallel()
	var c TermCounts
	for _, lexemes := range [][]string{{"the", "a1", "zebra", "the"}, {"the", "oak", "a1", "\x00", ""}, {"the", "7", "oak"}, {}} {
		c.Add(termsFor(lexemes...))
	}
	for maximum, want := range map[int]string{
		9: "[7 a1 oak the zebra] [1 2 2 3 1] true", 5: "[7 a1 oak the zebra] [1 2 2 3 1] true",
		4: "[a1 oak the zebra] [2 2 3 1] false", 2: "[oak the] [2 3] false", 0: "[] [] false",
	} {
		terms, counts, all := c.frequent(maximum)
		if got := fmt.Sprint(terms, counts, all); got != want {
			t.Errorf("%d: %s, want %s", maximum, got, want)
		}
	}
	if terms, _, all := (&TermCounts{}).frequent(3); len(terms) != 0 || !all {
		t.Errorf("of nothing: %v, %v", terms, all)
	}
}

// Counting uses a bounded amount of memory for any document, and frequent terms are counted
// exactly.
func TestVeryManyTerms(t *testing.T) {
	t.Parallel()
	var c TermCounts
	word := 0
	for n := range 60 {
		part := termsFor("always")
		for range 10_000 {
			part = append(part, Term{Lexeme: fmt.Sprint("w", word)})
			word++
		}
		c.Add(part)
		if n%2 == 0 {
			c.Add(part) // adds each term twice, because it is not enough to drop terms that occur only once
		}
		if len(c.noted) > maxNotedTerms {
			t.Fatalf("%d terms are noted", len(c.noted))
		}
	}
	terms, counts, all := c.frequent(countedTerms)
	if at := slices.Index(terms, "always"); all || len(terms) != countedTerms || at < 0 || counts[at] != 90 {
		t.Errorf("%d terms, all: %v", len(terms), all)
	}
}
