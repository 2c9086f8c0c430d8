package parse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
)

// written returns the events of a writer as text.
func written(limits parse.Limits, write func(*parse.Writer) error) (string, error) {
	var b strings.Builder
	err := write(parse.NewWriter(limits, func(e document.Event) error {
		switch {
		case e.Pages != nil:
			fmt.Fprintf(&b, "pages %d;", *e.Pages)
		case e.Done != nil:
			fmt.Fprintf(&b, "done %d;", *e.Done)
		case e.Block != nil:
			fmt.Fprintf(&b, "%d %s%d %q;", e.Block.Page, e.Block.Kind, e.Block.Level, e.Block.Text)
		}
		return nil
	}))
	return b.String(), err
}

func TestWriter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits parse.Limits
		write  func(*parse.Writer) error
		want   string
		code   document.Code
	}{
		"pages are done when the next one begins": {write: func(w *parse.Writer) error {
			return errors.Join(w.Pages(2), w.Page(1), w.Paragraph("a"), w.Page(2), w.Heading(9, "b"))
		}, want: `pages 2;1 paragraph0 "a";done 1;2 heading6 "b";`},
		"nothing is no block": {write: func(w *parse.Writer) error {
			return errors.Join(w.Paragraph(" \u200b\n"), w.Row([]string{"", " "}, true), w.Verbatim("\n \n"))
		}},
		"cells keep their columns":          {write: func(w *parse.Writer) error { return w.Row([]string{"a", "", "c\nd", ""}, false) }, want: `0 row0 "a | | c d";`},
		"an empty first cell":               {write: func(w *parse.Writer) error { return w.Row([]string{"", "b"}, false) }, want: `0 row0 "| b";`},
		"a gap is not written out":          {write: func(w *parse.Writer) error { return w.Row(append(make([]string, 16_000), "z"), false) }, want: `0 row0 "| z";`},
		"code keeps its spaces":             {write: func(w *parse.Writer) error { return w.Verbatim("\n  a\t b  \r\n\n") }, want: `0 verbatim0 "  a\t b";`},
		"a long heading is a paragraph":     {write: func(w *parse.Writer) error { return w.Heading(1, strings.Repeat("x", 1001)) }, want: `0 paragraph0 "` + strings.Repeat("x", 1001) + `";`},
		"too many pages by their number":    {limits: parse.Limits{Pages: 2}, write: func(w *parse.Writer) error { return w.Pages(3) }, code: document.TooManyPages},
		"too many pages, one by one":        {limits: parse.Limits{Pages: 2}, write: func(w *parse.Writer) error { return errors.Join(w.Page(2), w.Page(3)) }, code: document.TooManyPages},
		"too many blocks":                   {limits: parse.Limits{Blocks: 1}, write: func(w *parse.Writer) error { return errors.Join(w.Item("a"), w.Item("b")) }, code: document.TooLarge, want: `0 item0 "a";`},
		"too much text":                     {limits: parse.Limits{Text: 3}, write: func(w *parse.Writer) error { return w.Item("abcd") }, code: document.TooLarge},
		"after a failure nothing more told": {limits: parse.Limits{Text: 3}, write: func(w *parse.Writer) error { _ = w.Item("abcd"); return w.Item("a") }, code: document.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := written(c.limits, c.write)
			var failure *document.Failure
			if errors.As(err, &failure) != (c.code != "") || failure != nil && failure.Code != c.code || err != nil && failure == nil {
				t.Errorf("ended in %v, want %q", err, c.code)
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestLongBlocks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sentences": strings.Repeat("A sentence of words. ", 5000), "one word": strings.Repeat("ü", 40_000),
		"lines": strings.Repeat("a line\n", 10_000), "Chinese": strings.Repeat("人人生而自由。", 4000),
		"accents": strings.Repeat("x\u0323\u0304", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pieces []string
			w := parse.NewWriter(parse.Limits{}, func(e document.Event) error {
				pieces = append(pieces, e.Block.Text)
				return nil
			})
			if err := w.Paragraph(text); err != nil {
				t.Fatal(err)
			}
			squeeze := strings.NewReplacer(" ", "", "\n", "")
			if len(pieces) < 2 || squeeze.Replace(strings.Join(pieces, "")) != squeeze.Replace(parse.Clean(text)) {
				t.Errorf("%d pieces, which are not the text", len(pieces))
			}
			for _, p := range pieces {
				if len(p) > parse.MaxBlock || len(p) < parse.MaxBlock/2 && p != pieces[len(pieces)-1] || parse.Clean(p) != p {
					t.Errorf("a piece of %d bytes", len(p))
				}
			}
		})
	}
}

func TestReceiverFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the pipe is broken")
	formats := parse.Formats{}.With(parse.Text, func(_ context.Context, _ parse.Input, out *parse.Writer) (document.Info, error) {
		return document.Info{}, out.Paragraph("x")
	})
	_, err := parse.Parse(t.Context(), parse.Input{Content: []byte("x")}, parse.NewWriter(parse.Limits{}, func(document.Event) error { return broken }), formats)
	if !errors.Is(err, broken) {
		t.Errorf("ended in %v", err)
	}
}

func TestReaderPanics(t *testing.T) {
	t.Parallel()
	formats := parse.Formats{}.With(parse.Text, func(context.Context, parse.Input, *parse.Writer) (document.Info, error) { panic("no") })
	_, err := parse.Parse(t.Context(), parse.Input{Content: []byte("x")}, parse.NewWriter(parse.Limits{}, func(document.Event) error { return nil }), formats)
	var failure *document.Failure
	if !errors.As(err, &failure) || failure.Code != document.Damaged || strings.Contains(failure.Message, "no\n") {
		t.Errorf("ended in %v", err)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "a\x00b\x07\x1b[0mc": "ab[0mc", "e\u0301": "é", "\xff\xfe": "\uFFFD", "so\u00ADft": "soft",
		"a\u202Eb\u2066c\u200Fd": "abcd", "\uFEFFa\u200Bb": "ab", "می\u200cخواهم": "می\u200cخواهم", "👩\u200d🔬": "👩\u200d🔬",
		"a\r\nb\rc\vd\u2028e": "a\nb\nc\nd\ne", "x\U000E0061\U000E0100y": "xy", "\uFFFEa\uFDD0": "a", "\u0600١": "\u0600١",
	} {
		if got := parse.Clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
