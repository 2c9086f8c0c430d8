package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	"parley/shared/domain"
)

const (
	longestLine = 64 << 20
	// silence is the longest time that a stream may be silent. The service sends a heartbeat every 10 seconds.
	silence = 35 * time.Second
)

// errEnded reports a stream that ended before its final event.
var errEnded = errors.New("the stream was interrupted")

// Event is one event from a stream.
type Event struct {
	ID   string
	Type string
	Data []byte
}

// Ends reports whether the event is the last event of a run.
func (e Event) Ends() bool {
	switch e.Type {
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		return true
	default:
		return false
	}
}

// Events opens a stream and yields its events until a run ends or the reader stops. An interrupted stream is reopened after the
// last event with an ID, so no event is lost or repeated. After Options.Retries consecutive attempts without an event, the
// sequence ends with the error.
func (c *Client) Events(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var last domain.EventID
		failures := 0
		for {
			over, err := c.read(ctx, resumeRequest(request, last), func(e Event) bool {
				failures = 0
				if id, err := domain.ParseEventID(e.ID); err == nil {
					if !id.After(last) {
						return true // a proxy has replayed the event
					}
					last = id
				}
				return yield(e, nil) && !e.Ends()
			})
			if over {
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
			if err := c.backOff(ctx, request, err, failures); err != nil {
				yield(Event{}, err)
				return
			}
			failures++
		}
	}
}

// resumeRequest returns the request for the events after the event last.
func resumeRequest(request Request, last domain.EventID) Request {
	header := maps.Clone(request.Header)
	if header == nil {
		header = map[string]string{}
	}
	header["Accept"] = "text/event-stream"
	if last != (domain.EventID{}) {
		header["Last-Event-ID"] = last.String()
	}
	request.Header = header
	return request
}

// read reads the events from one connection. over is true if no reconnection is needed: next returned false, the run ended, or
// err is permanent.
func (c *Client) read(ctx context.Context, request Request, next func(Event) bool) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	response, err := c.send(ctx, request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // the reader has stopped
	if response.StatusCode == http.StatusNoContent {
		return true, nil
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return true, errors.New("the response is not an event stream: this does not look like a Parley server")
	}

	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()

	body := &notifyingReader{Reader: response.Body, told: func() { watchdog.Reset(silence) }}
	if over, err = Decode(body, next); over {
		return true, nil
	}
	return false, &AwayError{URL: Bare(c.base), Err: fmt.Errorf("%w: %w", errEnded, err)}
}

// notifyingReader calls a function on every read.
type notifyingReader struct {
	io.Reader
	told func()
}

func (h *notifyingReader) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.told()
	}
	return n, err //nolint:wrapcheck // a reader's errors belong to its caller
}

// Decode parses server-sent events until next returns false or the text ends. over reports that next returned false. An
// incomplete last event is ignored.
func Decode(text io.Reader, next func(Event) bool) (over bool, err error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 64<<10), longestLine)
	var e Event
	var data []string
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			e.Data = []byte(strings.Join(data, "\n"))
			if data != nil && !next(e) {
				return true, nil
			}
			e, data = Event{}, nil
		case name == "id":
			e.ID = value
		case name == "event":
			e.Type = value
		case name == "data":
			data = append(data, value)
		}
	}

	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("reading events: %w", err)
	}
	return false, io.EOF
}
