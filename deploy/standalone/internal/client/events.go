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
	// silence is how long a stream may say nothing; a service that lives says something every 10 seconds.
	silence = 35 * time.Second
)

// errEnded says that a stream ended before what it was to tell.
var errEnded = errors.New("the stream was interrupted")

// Event is one event of a stream.
type Event struct {
	ID   string
	Type string
	Data []byte
}

// Ends reports whether the event is a run's last.
func (e Event) Ends() bool {
	switch e.Type {
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		return true
	default:
		return false
	}
}

// Events opens a stream and gives its events until one ends a run or the reader leaves. A stream that breaks off is opened
// again, behind the last event that has an id: none is left out, none comes twice. One that cannot be opened again as often as
// Options.Retries says, without an event in between, ends with its error.
func (c *Client) Events(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var last domain.EventID
		failures := 0
		for {
			over, err := c.read(ctx, behind(request, last), func(e Event) bool {
				failures = 0
				if id, err := domain.ParseEventID(e.ID); err == nil {
					if !id.After(last) {
						return true // a proxy told it again
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

// behind is the request for what follows an event.
func behind(request Request, last domain.EventID) Request {
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

// read reads one connection's events. over means that nothing is to follow: next has said so, or the service has, or err says why.
func (c *Client) read(ctx context.Context, request Request, next func(Event) bool) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.send(ctx, request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }() // its reader leaves
	if response.StatusCode == http.StatusNoContent {
		return true, nil
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return true, errors.New("the answer is not an event stream: this does not look like a Parley server")
	}
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	body := &heard{Reader: response.Body, told: func() { watchdog.Reset(silence) }}
	if over, err = Decode(body, next); over {
		return true, nil
	}
	return false, &AwayError{URL: Bare(c.base), Err: fmt.Errorf("%w: %w", errEnded, err)}
}

// heard tells of whatever is read.
type heard struct {
	io.Reader
	told func()
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.told()
	}
	return n, err //nolint:wrapcheck // a reader's errors are its reader's
}

// Decode reads server-sent events until next says no, which over reports, or the text ends. An event that was not told to
// its end is none.
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
