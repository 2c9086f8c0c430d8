package parley

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// ErrRestarted reports that a run was restarted, and that its new answer differs from the text that
// Stream.Text has already yielded. Stream.Run returns the new answer. ErrRestarted is the error of
// a loop over Stream.Text.
var ErrRestarted = errors.New("the run was restarted with a different answer")

// Stream contains the events of a run as they happen. If the connection is lost, the stream resumes
// after the last event. Leaving a loop closes the connection, but does not stop the run. The next
// loop continues after the last event. A Stream is used by one goroutine at a time. The error of a
// loop is the last value that it yields.
type Stream struct {
	client  *Client
	request Request
	err     error // error of an invalid message; returned by the first read

	// runID and lastEventID are the ids of the run and of the last event that was read; empty
	// before the first event.
	runID, lastEventID string
	// run is nil until the last event of the run was read.
	run *Run
}

// RunID returns the run's id. It is empty before the first event. Save it to read the run later,
// also from another process.
func (s *Stream) RunID() string { return s.runID }

// LastEventID returns the id of the last event that was yielded. With this id, Runs.Stream
// continues after the event, in any process. The id is empty before the first event.
func (s *Stream) LastEventID() string { return s.lastEventID }

// Events yields the events of the run, up to the run's last event. The failure of a run is an event
// and not an error of the loop. If all events were read before, the sequence is empty.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if s.err != nil {
			yield(Event{}, s.err)
			return
		}
		if s.run != nil {
			return
		}

		// Continue after the last event of an earlier loop.
		request := s.request
		if s.lastEventID != "" {
			request.Header = withHeader(request.Header, "Last-Event-ID", s.lastEventID)
		}

		for event, err := range s.client.Events(ctx, request) {
			if err == nil {
				err = s.note(event)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// note records an event: its id, the id of the run and, at the end, the run. An event whose data is
// no JSON is an error.
func (s *Stream) note(event Event) error {
	var data struct {
		RunID string `json:"runId"`
		Run   *Run   `json:"run"`
	}
	if err := event.Into(&data); err != nil {
		return err
	}
	s.lastEventID, s.runID = event.ID, data.RunID
	if event.Ends() {
		s.run = data.Run
	}
	return nil
}

// Text yields the answer in pieces. If a lost attempt is repeated, text that was already yielded is
// not repeated. If the new answer differs, Text ends with ErrRestarted. A failed run ends the
// sequence without an error; use Run to get the outcome.
func (s *Stream) Text(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var shown shownText
		for event, err := range s.Events(ctx) {
			fresh := ""
			if err == nil {
				fresh, err = shown.take(event)
			}
			if err != nil || fresh != "" {
				if !yield(fresh, err) || err != nil {
					return
				}
			}
		}
	}
}

// Run reads the rest of the stream and returns the run, even if it failed. It can be called after a
// loop over Events or Text, and more than once.
func (s *Stream) Run(ctx context.Context) (*Run, error) {
	for _, err := range s.Events(ctx) {
		if err != nil {
			return nil, err
		}
	}

	if s.run == nil { // the stream was resumed after the run's last event, so it contained no run
		return s.client.Runs.Get(ctx, s.runID)
	}
	return s.run, nil
}

// shownText is the text that a reader has received. This text cannot be retracted. A shownText is
// used for one loop over Stream.Text.
type shownText struct {
	text string
	at   int // number of bytes that the current attempt has repeated
}

// take returns the part of an event's text that the reader has not received. The error is
// ErrRestarted if the text contradicts what the reader has received.
func (t *shownText) take(event Event) (string, error) {
	switch event.Type {
	case EventRunRestarted:
		t.at = 0
	case EventRunCompleted:
		if t.at < len(t.text) {
			return "", ErrRestarted
		}
	case EventMessageDelta:
		var data struct{ Text string }
		if err := event.Into(&data); err != nil {
			return "", err
		}

		// known is the part of the received text at the position of the new text.
		known := t.text[t.at:min(t.at+len(data.Text), len(t.text))]
		if !strings.HasPrefix(data.Text, known) {
			return "", ErrRestarted
		}
		t.at += len(data.Text)
		t.text += data.Text[len(known):]
		return data.Text[len(known):], nil
	}
	return "", nil
}

// Into decodes the data of the event. The data of each type of event is described in
// docs/streams.md.
func (e Event) Into(value any) error {
	if err := json.Unmarshal(e.Data, value); err != nil {
		return fmt.Errorf("reading event %s: %w", e.ID, err)
	}
	return nil
}

// withHeader returns a copy of header with one more entry. An entry with the same name is replaced.
// The argument header may be nil.
func withHeader(header map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for other, its := range header {
		if other != name {
			out[other] = its
		}
	}
	return out
}
