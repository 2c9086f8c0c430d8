package agentloop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

// costFor returns the processor time that it takes to filter a text and to find its citations. The
// result is the minimum of several tries.
func costFor(text string) time.Duration {
	best := time.Hour
	for range 3 {
		p := testPassages()
		best = min(best, cputime.Of(func() {
			f := newFilter(p.check, func(string) {})
			f.write(text)
			p.citations(f.finish(), f.marks, 0)
		}))
		if best > 10*time.Second {
			break
		}
	}
	return best
}

// TestTextsMadeToBeSlow checks that no text takes more than ten times as long as ordinary text of
// the same length. The test compares times, so it does not run in parallel.
func TestTextsMadeToBeSlow(t *testing.T) { //nolint:paralleltest // it measures
	const size = 120_000
	plain := costFor(strings.Repeat("It is tall [1]. ", size/16))
	for name, text := range map[string]string{
		"quotes begun":             strings.Repeat(`[1 "`, size/4),
		"quotes begun and ended":   strings.Repeat(`[1 "[1 ""`, size/9),
		"a list before brackets":   "[" + strings.Repeat("1,", 250) + strings.Repeat("[9]", size/3),
		"an indent before markers": strings.Repeat(" ", size/2) + strings.Repeat("[1]", size/6),
		"words before markers":     strings.Repeat("word ", size/10) + strings.Repeat("[1]", size/6),
		"many shortened words":     strings.Repeat("Mr. ", size/24) + "[1]",
		"lines of nothing":         strings.Repeat("\n", size/2) + strings.Repeat("\n[1]", size/8),
		"a table's line":           strings.Repeat("|[1]", size/4),
		"brackets in code":         strings.Repeat("`[", size/2),
	} {
		if cost := costFor(text); cost > 10*plain {
			t.Errorf("%s: %v, where plain text takes %v", name, cost, plain)
		}
	}
}

// TestQuotesThatDoNotEnd checks that a text with many unclosed quotes loses its brackets after a
// certain length.
func TestQuotesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	f := newFilter(testPassages().check, func(string) {})
	f.write(strings.Repeat(`[1 "`, 40_000))
	f.write("\n\nIt is tall [1].\n")
	text := f.finish()
	if f.reread > rereadAlways+(maxReread+1)*f.taken+maxHeld || strings.Contains(text, `[1 "`) {
		t.Errorf("%d characters, %d read again", f.taken, f.reread)
	}
	if !strings.HasSuffix(text, "\n\nIt is tall [1].\n") {
		t.Errorf("ends with %q", text[len(text)-30:])
	}
}

// TestWordsNextToAMarker checks that a marker after a very long sentence supports only the end of
// the sentence.
func TestWordsNextToAMarker(t *testing.T) {
	t.Parallel()
	far := "330 metres tall, about the same height as an 81-storey building " + strings.Repeat("— ", maxSupported)
	if got := testPassages()[1].choose(far + "square"); got != "Its base is square." {
		t.Errorf("got %q", got)
	}
}

// expiringContext is a context that ends after a given number of calls of Err.
type expiringContext struct {
	context.Context //nolint:containedctx // the type is a context
	looks           int
}

func (l *expiringContext) Err() error {
	if l.looks--; l.looks < 0 {
		return errors.New("over")
	}
	return nil
}

// TestReadingALongHistory checks that the loop stops reading a long history when the context ends.
func TestReadingALongHistory(t *testing.T) {
	t.Parallel()
	history := []Turn{PlainTurn("q", "Tall [7]."), PlainTurn("q", strings.Repeat("It is tall [3]. ", 60_000)), PlainTurn("q", "Tall [9].")}
	looks := 1 + 15 + 1 // Err is called once for each piece; the second of the three answers has 15 pieces of at most 64 KiB
	for _, tt := range []struct {
		looks int
		ok    bool
	}{{0, false}, {looks - 1, false}, {looks, true}} {
		in := &Input{Model: offline.Echo{}, History: history}
		r := newRun(New(Config{}), in, nil, nil)
		if err := r.readEarlier(&expiringContext{t.Context(), tt.looks}); (err == nil) != tt.ok || (r.earlier == 9) != tt.ok {
			t.Errorf("%d looks: %v, %d", tt.looks, err, r.earlier)
		}
	}
	in := &Input{Model: offline.Echo{}, History: []Turn{{Messages: []llm.Message{{Role: llm.RoleAssistant, Text: strings.Repeat("长", readChunk) + "[12]"}}}}}
	r := newRun(New(Config{}), in, nil, nil)
	if err := r.readEarlier(t.Context()); err != nil || r.earlier != 12 {
		t.Errorf("got %d, %v", r.earlier, err) // a piece may end inside a character
	}
}
