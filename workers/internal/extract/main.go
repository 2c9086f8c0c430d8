package extract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/formats"
	"parley/workers/internal/parse/pdf"
)

// Main is the first statement of every main: when this process was started as the reader, in a sandbox, it reads the document and
// exits; else it returns at once.
func Main() {
	if os.Args[0] != programPath {
		return
	}
	if err := beReader(); err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1) //nolint:revive // this is a main
	}
	os.Exit(0) //nolint:revive // this is a main
}

// beReader reads the document, and tells it on standard output.
func beReader() error {
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	if _, err := out.WriteString(protocol); err != nil {
		return fmt.Errorf("telling: %w", err)
	}
	text, err := os.ReadFile(orderPath)
	if err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	if err := restrain(o.Limits); err != nil {
		return err
	}
	content, err := os.ReadFile(documentPath)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	t := teller{out: out, lines: json.NewEncoder(out)}
	t.lines.SetEscapeHTML(false)
	info, err := parseDocument(o, content, t.tell)
	if err == nil {
		return t.last(document.Event{End: &info})
	}
	failure, is := errors.AsType[*document.Failure](err)
	if !is {
		return errors.Join(err, out.Flush())
	}
	return t.last(document.Event{Failure: failure})
}

func parseDocument(o order, content []byte, tell func(document.Event) error) (document.Info, error) {
	limits := parse.Limits{Pages: o.Limits.Pages, Blocks: o.Limits.Blocks, Text: o.Limits.Text}
	in := parse.Input{Name: o.Name, MIMEType: o.MIMEType, Content: content, Limits: limits}
	known := formats.All().With(pdf.MIMEType, pdf.Reader(pdf.Config{
		Path: documentPath, NoOCR: o.NoOCR, CPU: o.Limits.CPU, Wall: o.Limits.Wall,
	}))
	return parse.Parse(context.Background(), in, parse.NewWriter(limits, tell), known) //nolint:wrapcheck // it is told as it is
}

// teller writes events as lines.
type teller struct {
	out   *bufio.Writer
	lines *json.Encoder
}

// tell writes an event. What tells of progress goes out at once.
func (t teller) tell(e document.Event) error {
	if err := t.lines.Encode(e); err != nil {
		return fmt.Errorf("telling: %w", err)
	}
	if e.Block != nil {
		return nil
	}
	return t.out.Flush()
}

func (t teller) last(e document.Event) error {
	if err := t.tell(e); err != nil {
		return err
	}
	return t.out.Flush()
}
