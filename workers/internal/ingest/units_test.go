package ingest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/store/knowledgedb"
	"parley/workers/internal/analysis"
	"parley/workers/internal/document"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for attempts, maximum := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 3 * time.Second, 5: 81 * time.Second, 7: 729 * time.Second, 8: 15 * time.Minute, 1000: 15 * time.Minute} {
		for range 100 {
			if d := backoff(attempts); d > maximum || d < maximum*3/4 {
				t.Fatalf("after %d attempts: %s", attempts, d)
			}
		}
	}
}

func TestTheAttemptsFitIntoTheHourOfADocument(t *testing.T) {
	t.Parallel()
	var all time.Duration
	for attempts := 1; attempts < knowledgedb.MaxDocumentAttempts; attempts++ {
		all += backoff(attempts)
	}
	if all < 30*time.Minute || all > time.Hour {
		t.Errorf("the delays add up to %v", all)
	}
}

func TestWordsOfNames(t *testing.T) {
	t.Parallel()
	if got := wordsFor("return_policy-2024.v2.pdf"); got != "return policy 2024 v2" {
		t.Error(got)
	}
}

// block returns a paragraph.
func block(text string) document.Event {
	return document.Event{Block: &document.Block{Kind: document.Paragraph, Text: text}}
}

func TestTheLanguageIsToldByTheBeginning(t *testing.T) {
	t.Parallel()
	german := strings.Repeat("Die Lampe wird mit einem weichen Tuch gereinigt, und der Stecker ist vorher aus der Dose zu ziehen. ", 8)
	x := newIndexer("pflege.txt")
	for range 8 {
		x.take(block(german))
	}
	if x.decided || len(x.pending) != 0 {
		t.Error("the language is decided too early")
	}
	for range 8 {
		x.take(block(german))
	}
	if !x.decided || x.language != "de" || len(x.pending) == 0 || len(x.waiting) != 0 {
		t.Errorf("%t %q %d %d", x.decided, x.language, len(x.pending), len(x.waiting))
	}
	short := newIndexer("x")
	short.take(block("ok 12"))
	if short.close(document.Info{Language: "fr"}); short.language != "fr" || len(short.pending) != 1 {
		t.Errorf("%q, %d", short.language, len(short.pending))
	}
}

func TestTheLanguageIsWaitedForBehindContents(t *testing.T) {
	t.Parallel()
	entry := "ASN_1 schema 4.1 " + strings.Repeat(". ", 60) + "8"
	english := strings.Repeat("The lamp is cleaned with a soft cloth, and the plug has to be taken out of its socket before that. ", 8)
	for text, want := range map[string]string{english: "en", entry: ""} {
		x := newIndexer("manual.pdf")
		for x.chars < 2*languageText {
			x.take(block(entry))
		}
		if x.decided {
			t.Fatal("the detection stopped at the contents")
		}
		maximum := 0
		for n := 0; !x.decided && n < 1000; n++ {
			x.take(block(text))
			maximum = max(maximum, x.chars)
		}
		if !x.decided || x.language != want || len(x.waiting) != 0 || maximum > maxLanguage+5000 {
			t.Errorf("%t, %q and not %q, after %d characters", x.decided, x.language, want, maximum)
		}
	}
}

func TestTermsOfHeadingsStandBehindThoseOfTheText(t *testing.T) {
	t.Parallel()
	x := newIndexer("lamp_care.md")
	x.take(document.Event{Block: &document.Block{Kind: document.Heading, Level: 1, Text: "Brass"}})
	x.take(block("Brass is rubbed with a dry cloth. Brass has a lacquer."))
	x.close(document.Info{Language: "en"})
	if len(x.pending) != 1 {
		t.Fatalf("%+v", x.pending)
	}
	places := map[int]bool{}
	headings, brass := 0, 0
	for _, term := range x.pending[0].Terms {
		if term.Heading {
			headings++
		}
		if term.Lexeme == analysis.Terms("en", "Brass")[0].Text {
			brass += len(term.Positions)
		}
		for _, p := range term.Positions {
			if term.Heading && places[p] {
				t.Errorf("%+v has the place of a word of the text", term)
			}
			if !term.Heading {
				places[p] = true
			}
		}
	}
	if headings < 3 || brass < 3 { // each word occurs two or three times in the text, and also in the heading
		t.Errorf("%+v", x.pending[0].Terms)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	x := &indexer{}
	if x.due(true) {
		t.Error("there is nothing to write")
	}
	x.pending = make([]knowledgedb.NewChunk, 2*maxBatch+1)
	sizes := []int{}
	for x.due(false) {
		sizes = append(sizes, len(x.batch().chunks))
	}
	if len(sizes) != 2 || sizes[0] != maxBatch || !x.due(true) || len(x.batch().chunks) != 1 || x.due(true) {
		t.Errorf("%v and %d", sizes, len(x.pending))
	}
	three := 3
	x.take(document.Event{Done: &three})
	if b := x.batch(); b.done != 3 || len(b.chunks) != 0 || x.left() {
		t.Errorf("%+v", b)
	}
}

func TestWritesAreTriedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	n := 0
	if err := fenced(t.Context(), func() (bool, error) {
		if n++; n == 1 {
			return false, context.DeadlineExceeded
		}
		return true, nil
	}); err != nil || n != 2 {
		t.Error(err, n)
	}
	broken := errors.New("broken")
	if err := fenced(t.Context(), func() (bool, error) { n++; return false, broken }); !errors.Is(err, broken) || n != 3 {
		t.Error(err, n)
	}
	if err := fenced(t.Context(), func() (bool, error) { return false, nil }); !errors.Is(err, errTaken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLease)
	if err := fenced(ctx, func() (bool, error) { return false, context.Canceled }); !errors.Is(err, errLease) {
		t.Error(err)
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newShares(4, 2)
	s.now = func() time.Time { return now }
	check := func(what string, free, maximum int, last bool, excluded ...string) {
		t.Helper()
		if m, n, l := s.claimLimit(free); m != maximum || l != last || !slices.Equal(n, excluded) {
			t.Errorf("%s: %d, %v, %v", what, m, n, l)
		}
	}
	owing := func(what string, want map[string]int64, notShort ...string) {
		t.Helper()
		if got := s.debts(); !maps.Equal(got, want) {
			t.Errorf("%s: debts %v", what, got)
		}
		if excluded := s.excludedFromShort(); !slices.Equal(excluded, notShort) {
			t.Errorf("%s: the short lane excludes %v", what, excluded)
		}
	}
	check("no document is being processed", 4, 3, false)
	a1, a2, b := s.take("a", false), s.take("a", false), s.take("b", false)
	check("all could be a's", 9, 1, false)
	check("the last slot is for others", 1, 1, true, "a", "b")
	a3 := s.take("a", false)
	check("a has its share", 9, 2, false, "a")
	if !s.full() {
		t.Error("a slot is free")
	}
	owing("before they have taken anything", map[string]int64{})
	read := func(org string, short bool, cpu time.Duration, left bool) {
		d := s.take(org, short)
		s.spend(d, cpu)
		s.release(d, left)
	}
	for _, d := range []*turn{a1, a2, a3} {
		s.spend(d, 1500*time.Millisecond)
	}
	s.spend(b, 2*time.Second)
	owing("while they are read", map[string]int64{"a": 4, "b": 2})
	for _, d := range []*turn{a1, a2, a3, b} {
		s.spend(d, time.Second)
		s.release(d, false)
	}
	owing("once they are read", map[string]int64{"a": 3, "b": 1})
	check("both owe little", 1, 1, true)
	read("a", false, 20*time.Second, false)
	check("a owes much", 1, 1, true, "a")
	check("and still has the other slots", 4, 3, false)
	short := s.take("b", true)
	owing("b has its slot of the short lane", map[string]int64{"a": 23, "b": 1}, "a", "b")
	if s.full() {
		t.Error("the short lane takes no slots")
	}
	s.release(short, true)
	owing("b had to leave it", map[string]int64{"a": 23, "b": 7}, "a")
	check("and owes too much for the last slot", 1, 1, true, "a", "b")
	now = now.Add(16 * time.Second)
	check("b has paid most of it", 1, 1, true, "a")
	read("a", false, time.Hour, false)
	owing("debts are bounded", map[string]int64{"a": 60, "b": 3}, "a")
	now = now.Add(time.Hour)
	if check("both have paid", 4, 3, false); len(s.shares) != 0 {
		t.Error(s.shares)
	}
	if maximum, excluded, last := newShares(1, 0).claimLimit(1); maximum != 1 || excluded != nil || last {
		t.Error(maximum, excluded, last)
	}
}
