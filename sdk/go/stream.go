package parley

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// ErrRestarted reports that a run was started again and that its answer differs from the text that
// Stream.Text has already yielded. Stream.Run returns the new answer.
var ErrRestarted = errors.New("the run was restarted with a different answer")

// Stream is the events of a run as they happen. A broken stream resumes after the last event. Leaving
// a loop closes the connection, and the next loop continues after the last event. The run continues.
type Stream struct {
	client  *Client
	request Request
	err     error // an invalid message

	runID, lastEventID string
	run                *Run
}

// RunID returns the run's id. It is empty before the first event.
func (s *Stream) RunID() string { return s.runID }

// LastEventID returns the id of the last event that was yielded. Runs.Stream continues after it, in
// any process.
func (s *Stream) LastEventID() string { return s.lastEventID }

// Events yields the events up to the run's last one.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if s.err != nil {
			yield(Event{}, s.err)
			return
		}
		if s.run != nil {
			return
		}

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

// note records an event.
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
// not repeated. If the new answer differs, the error is ErrRestarted.
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

// Run reads the rest of the stream and returns the run, whatever its result.
func (s *Stream) Run(ctx context.Context) (*Run, error) {
	for _, err := range s.Events(ctx) {
		if err != nil {
			return nil, err
		}
	}
	if s.run == nil { // the stream was resumed after its last event
		return s.client.Runs.Get(ctx, s.runID)
	}
	return s.run, nil
}

// shownText is the text that a reader has received, which cannot be withdrawn.
type shownText struct {
	text string
	at   int // the position of the current attempt in the text
}

// take returns the part of an event's text that the reader has not received.
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

// Into decodes the event's data.
func (e Event) Into(value any) error {
	if err := json.Unmarshal(e.Data, value); err != nil {
		return fmt.Errorf("reading event %s: %w", e.ID, err)
	}
	return nil
}

// withHeader returns a copy of headers with one more.
func withHeader(header map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for other, its := range header {
		if other != name {
			out[other] = its
		}
	}
	return out
}
