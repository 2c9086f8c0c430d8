package extract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"parley/workers/internal/document"
)

// eventWriter writes the reader's greeting, and then one event per line. It is safe for concurrent
// use, because a signal handler may write the final event while a parser writes other events.
type eventWriter struct {
	mu    sync.Mutex
	out   *bufio.Writer
	lines *json.Encoder
}

// newEventWriter returns a writer of events to a stream. HTML characters are not escaped, because
// events are never part of a web page.
func newEventWriter(to io.Writer) *eventWriter {
	out := bufio.NewWriterSize(to, 64<<10)
	w := &eventWriter{out: out, lines: json.NewEncoder(out)}
	w.lines.SetEscapeHTML(false)
	return w
}

// greet sends the greeting immediately. The greeting shows the worker that the reader has started.
// If the reader fails later, the worker considers the document to be the cause.
func (w *eventWriter) greet() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.WriteString(protocol); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return w.out.Flush()
}

// write writes an event. It buffers blocks. Any other event is sent immediately, after the buffered
// blocks.
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

// last writes the last line, which is the final event or a picture, and sends all buffered data.
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

// image writes the description of a converted image, followed by the bytes of the image. This is
// the reader's last output.
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
