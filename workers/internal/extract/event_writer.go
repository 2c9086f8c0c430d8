package extract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"parley/workers/internal/document"
)

// eventWriter writes the reader's greeting and its events, one per line. It is safe for
// concurrent use: the handler of the processor limit ends the stream while a parser writes to it.
type eventWriter struct {
	mu    sync.Mutex
	out   *bufio.Writer
	lines *json.Encoder
}

func newEventWriter(to io.Writer) *eventWriter {
	out := bufio.NewWriterSize(to, 64<<10)
	w := &eventWriter{out: out, lines: json.NewEncoder(out)}
	w.lines.SetEscapeHTML(false)
	return w
}

// greet sends the greeting immediately. It distinguishes a reader that did not start from one
// that failed on its document.
func (w *eventWriter) greet() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.WriteString(protocol); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return w.out.Flush()
}

// write writes an event. Blocks are buffered; other events are sent immediately.
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

// last writes the final event and sends everything that is buffered.
func (w *eventWriter) last(e document.Event) error {
	if err := w.write(e); err != nil {
		return err
	}
	return w.flush()
}

func (w *eventWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}
