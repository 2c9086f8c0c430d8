package parley

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// longestLine is the maximum length of a line of a stream, in bytes.
	longestLine = 64 << 20
	// silence is the longest time that a stream may be silent. The service sends a heartbeat every 10 seconds.
	silence = 35 * time.Second
)

// errEnded is the error of a stream that ended before its final event. It is the cause in a
// *ConnectionError, so the stream is reopened.
var errEnded = errors.New("the stream was interrupted")

// Event is one event from a stream. Heartbeats are not events.
type Event struct {
	// Position of the event in its stream; empty: the stream cannot resume after it.
	ID string
	// Name of the event, such as message.delta; see the constants Event….
	Type string
	// JSON of the event.
	Data []byte
}

// Ends reports whether the event is the last event of its run. A stream without runs, such as the
// stream of changes, has no last event.
func (e Event) Ends() bool {
	switch e.Type {
	case EventRunCompleted, EventRunFailed, EventRunCancelled, EventRunTimedOut:
		return true
	default:
		return false
	}
}

// Events opens a stream and yields its events until a run ends or the reader stops. An interrupted
// stream is reopened after the last event with an ID, so no event is lost or repeated. After
// Options.Retries consecutive retries without an event, the sequence ends with the error of the
// last attempt. An *APIError that is not worth a retry ends the sequence, too. Each loop over the
// sequence sends the request again.
func (c *Client) Events(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last, _ := parseEventID(request.Header["Last-Event-ID"])
		failures := 0
		for {
			over, err := c.read(ctx, resumeRequest(request, last), func(e Event) bool {
				failures = 0
				if id, ok := parseEventID(e.ID); ok {
					if !id.follows(last) {
						return true // a proxy has replayed an earlier event
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

// eventID is the position of an event in its run's log: the attempt that published the event, and
// its number in the attempt. Other streams have no such ids.
type eventID struct{ attempt, number int64 }

// parseEventID parses the id of an event in the form attempt.number. ok is false for any other
// text.
func parseEventID(text string) (id eventID, ok bool) {
	attempt, number, _ := strings.Cut(text, ".")
	var attemptErr, numberErr error
	id.attempt, attemptErr = strconv.ParseInt(attempt, 10, 64)
	id.number, numberErr = strconv.ParseInt(number, 10, 64)
	return id, attemptErr == nil && numberErr == nil
}

// String returns the id as the API writes it.
func (id eventID) String() string { return fmt.Sprintf("%d.%d", id.attempt, id.number) }

// follows reports whether the event comes after the event other. Attempts are ordered by their
// number.
func (id eventID) follows(other eventID) bool {
	if id.attempt != other.attempt {
		return id.attempt > other.attempt
	}
	return id.number > other.number
}

// resumeRequest returns the request for the events after the event last. The header of the argument
// request is not changed.
func resumeRequest(request Request, last eventID) Request {
	request.Header = withHeader(request.Header, "Accept", "text/event-stream")
	if last != (eventID{}) {
		request.Header["Last-Event-ID"] = last.String()
	}
	return request
}

// read reads the events from one connection. The function next is called for each event. The result
// over is true if the caller must not reconnect, because next returned false, the run ended, or err
// is permanent. A response without content means that all events were received.
func (c *Client) read(ctx context.Context, request Request, next func(Event) bool) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	response, err := c.send(ctx, request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // an error does not matter, because the body was read as far as needed
	if response.StatusCode == http.StatusNoContent {
		return true, nil
	}

	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return true, errors.New("the response is not an event stream; check the URL of the service")
	}

	// A connection that was lost silently is closed by the watchdog.
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()

	body := &notifyingReader{Reader: response.Body, sent: func() { watchdog.Reset(silence) }}
	if over, err = decode(body, next); over {
		return true, nil
	}
	return false, &ConnectionError{URL: Bare(c.base), Err: fmt.Errorf("%w: %w", errEnded, err)}
}

// notifyingReader is a reader that calls the function sent after each read that returned bytes. The
// bytes may be those of a heartbeat.
type notifyingReader struct {
	io.Reader
	sent func()
}

// Read reads from the wrapped reader, and then calls the function sent if the read returned bytes.
func (h *notifyingReader) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.sent()
	}
	return n, err //nolint:wrapcheck // errors of the wrapped reader are returned unchanged
}

// decode parses server-sent events until next returns false or the text ends. The result over is
// true if next returned false. An incomplete last event is ignored. The error is io.EOF if the text
// ends. Comments and unknown fields are ignored.
func decode(text io.Reader, next func(Event) bool) (over bool, err error) {
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
