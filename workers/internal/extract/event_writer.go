package extract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"parley/workers/internal/document"
)

// eventWriter writes the reader's greeting and its events, one event per line. It is safe for
// concurrent use: a signal handler may write the final event while a parser writes other events.
type eventWriter struct {
	mu    sync.Mutex
	out   *bufio.Writer
	lines *json.Encoder
}

// newEventWriter returns a writer of events to a stream. It does not escape HTML, because the
// events are never part of a page.
func newEventWriter(to io.Writer) *eventWriter {
	out := bufio.NewWriterSize(to, 64<<10)
	w := &eventWriter{out: out, lines: json.NewEncoder(out)}
	w.lines.SetEscapeHTML(false)
	return w
}

// greet sends the greeting immediately. The greeting shows the worker that the reader has started,
// and that the document causes any later failure.
func (w *eventWriter) greet() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.WriteString(protocol); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return w.out.Flush()
}

// write writes an event. Blocks are buffered; any other event is sent immediately, after the
// buffered blocks.
func (w *eventWriter) write(e document.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lines.Encode(e); err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	if e.Block != nil {
		return nil
	}
	return w.out.Flush()
}

// last writes the last line, which is the final event or a picture, and sends all buffered events.
func (w *eventWriter) last(line any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lines.Encode(line); err != nil {
		return fmt.Errorf("writing the last line: %w", err)
	}
	return w.out.Flush()
}

// flush sends all buffered events.
func (w *eventWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}

// image writes the head of a converted image and then its bytes, as the last output.
func (w *eventWriter) image(head imageHead, content []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lines.Encode(head); err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	if _, err := w.out.Write(content); err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	return w.out.Flush()
}
