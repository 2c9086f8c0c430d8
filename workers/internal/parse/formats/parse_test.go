package formats_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/formats"
)

// result is the result of reading a document.
type result struct {
	info   document.Info
	blocks []document.Block
	done   []int
	err    error
}

func read(tb testing.TB, in parse.Input) result {
	tb.Helper()
	var r result
	out := parse.NewWriter(in.Limits, func(e document.Event) error {
		switch {
		case e.Block != nil:
			r.blocks = append(r.blocks, *e.Block)
		case e.Done != nil:
			r.done = append(r.done, *e.Done)
		}
		return nil
	})
	r.info, r.err = parse.Parse(tb.Context(), in, out, formats.All())
	return r
}

// outline returns the blocks as text, one per line, in the form "page kind text".
func (r result) outline() string {
	var b strings.Builder
	if r.err != nil {
		var failure *document.Failure
		if !errors.As(r.err, &failure) {
			return "error: " + r.err.Error() + "\n"
		}
		return fmt.Sprintf("failure %s: %s\n", failure.Code, failure.Message)
	}
	fmt.Fprintf(&b, "type %s\ntitle %q language %q pages %d\n", r.info.MIMEType, r.info.Title, r.info.Language, r.info.Pages)
	for _, n := range r.info.Notes {
		fmt.Fprintf(&b, "note %s\n", n)
	}
	for _, block := range r.blocks {
		kind := string(block.Kind)
		if block.Kind == document.Heading {
			kind += fmt.Sprint(block.Level)
		}
		if block.Head {
			kind += "-head"
		}
		fmt.Fprintf(&b, "%d %s: %s\n", block.Page, kind, strings.ReplaceAll(block.Text, "\n", "\n    "))
	}
	return b.String()
}

func (r result) text() string {
	var b strings.Builder
	for _, block := range r.blocks {
		b.WriteString(block.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

func (r result) code() document.Code {
	if failure, ok := errors.AsType[*document.Failure](r.err); ok {
		return failure.Code
	}
	return ""
}
