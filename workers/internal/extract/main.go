package extract

import (
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

// Main must be the first call in the main function of each program that uses this package. If the
// process was started as a reader in a sandbox, Main reads the document and exits. Otherwise it
// returns immediately.
func Main() {
	if os.Args[0] != programPath {
		return
	}
	if err := runReader(); err != nil {
		fmt.Fprintln(os.Stderr, "reader:", err)
		os.Exit(1) //nolint:revive // Main is the main function of the reader
	}
	os.Exit(0) //nolint:revive // Main is the main function of the reader
}

// runReader reads the document and writes its events to standard output.
func runReader() error {
	text, err := os.ReadFile(orderPath)
	if err != nil {
		return fmt.Errorf("reading the request from the worker: %w", err)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("decoding the request from the worker: %w", err)
	}

	// Set the limits before the document is read. Afterwards, a malicious document could have taken
	// control of this process.
	w := newEventWriter(os.Stdout)
	failAtLimit(w) // the final event that a reader sends when it reaches a limit is also a valid reply to a request for a picture
	if err := restrain(o.Limits); err != nil {
		return err
	}
	content, err := os.ReadFile(documentPath)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}

	// Send the greeting before the first byte is parsed. The worker then considers the document to
	// be the cause of any later failure.
	if err := w.greet(); err != nil {
		return err
	}
	if o.Image {
		return convertImage(o, content, w)
	}
	var last any
	if o.Picture > 0 {
		last, err = renderPage(o.Picture)
	} else {
		last, err = parseDocument(o, content, w.write)
	}
	if err == nil {
		return w.last(last)
	}

	// Any other error is a fault of this program. It is written to standard error, which the worker
	// reads.
	failure, is := errors.AsType[*document.Failure](err)
	if !is {
		return errors.Join(err, w.flush())
	}
	return w.last(document.Event{Failure: failure})
}

// renderPage returns the reply to a request for a picture of a page.
func renderPage(page int) (pictureReply, error) {
	p, err := pdf.Picture(context.Background(), documentPath, page)
	return pictureReply{Picture: &p}, err //nolint:wrapcheck // reported unchanged
}

// parseDocument parses a document in any format, and passes the events to the function write. It
// returns the final event.
func parseDocument(o order, content []byte, write func(document.Event) error) (document.Event, error) {
	limits := parse.Limits{Pages: o.Limits.Pages, Blocks: o.Limits.Blocks, Text: o.Limits.Text}

	// The parser for PDF documents has settings of its own, so it is not part of formats.All. Add
	// it to the other parsers.
	in := parse.Input{Name: o.Name, MIMEType: o.MIMEType, Content: content, Limits: limits}
	known := formats.All().With(pdf.MIMEType, pdf.Reader(pdf.Config{
		Path: documentPath, NoOCR: o.NoOCR, CPU: o.Limits.CPU, Wall: o.Limits.Wall,
	}))
	info, err := parse.Parse(context.Background(), in, parse.NewWriter(limits, write), known)
	return document.Event{End: &info}, err //nolint:wrapcheck // reported unchanged
}
