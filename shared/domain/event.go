package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Types of events in the HTTP API.
const (
	EventRunCreated     = "run.created"
	EventRunStarted     = "run.started"
	EventRunRestarted   = "run.restarted"
	EventMessageDelta   = "message.delta"
	EventToolStarted    = "tool.started"
	EventToolCompleted  = "tool.completed"
	EventCitationAdded  = "citation.added"
	EventOutputDelta    = "output.delta"
	EventRequiresAction = "run.requires_action"
	EventRunCompleted   = "run.completed"
	EventRunFailed      = "run.failed"
	EventRunCancelled   = "run.cancelled"
	EventRunTimedOut    = "run.timed_out"
)

// EventID is the position of an event in its run's log: the fence of the attempt that published it,
// and its number in the attempt. Events before the first attempt have fence 0.
type EventID struct {
	Fence int64
	N     int
}

// CreatedID is the id of the event for a run's creation, and StartedID is the id of the event for
// its first start. A run that ends before its first attempt has no start.
var (
	CreatedID = EventID{Fence: 0, N: 1}
	StartedID = EventID{Fence: 1, N: 1}
)

// String returns the id in the form that the API uses: "<fence>.<n>".
func (id EventID) String() string { return string(id.Append(nil)) }

// Append appends the id to b.
func (id EventID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, id.Fence, 10)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(id.N), 10)
}

// After reports whether the event comes after the event other in any log that contains both.
func (id EventID) After(other EventID) bool {
	// A later attempt has a higher fence, and its numbers begin again.
	if id.Fence != other.Fence {
		return id.Fence > other.Fence
	}
	return id.N > other.N
}

// Follows reports whether this event may come directly after last, the newest event that a reader
// has seen. If it returns false for a later event, events between the two are missing.
func (id EventID) Follows(last EventID) bool {
	switch {
	case id.Fence == last.Fence:
		return id.N == last.N+1
	case last.Fence == 0: // the run's first start precedes all events that attempts publish
		return id == StartedID && last == CreatedID
	default:
		return id.Fence > last.Fence && id.N == 1
	}
}

// ParseEventID is the inverse of String. It accepts only the form that String returns, so each
// event has exactly one id in text form.
func ParseEventID(s string) (EventID, error) {
	fence, n, found := strings.Cut(s, ".")
	id := EventID{}
	var fenceErr, nErr error
	id.Fence, fenceErr = strconv.ParseInt(fence, 10, 64)
	id.N, nErr = strconv.Atoi(n)
	if !found || fenceErr != nil || nErr != nil || id.Fence < 0 || id.N < 0 || id.String() != s {
		return EventID{}, errors.New("an event id must be two whole numbers separated by a dot, such as 1.7")
	}
	return id, nil
}

// Event is an entry of a run's log. Data is a JSON object in one line, without the run's id.
type Event struct {
	ID   EventID
	Type string
	Data []byte
}

// Last reports whether the event is the last one of its run's log, which is the event of a terminal
// state.
func (e Event) Last() bool {
	switch e.Type {
	case EventRunCompleted, EventRunFailed, EventRunCancelled, EventRunTimedOut:
		return true
	default:
		return false
	}
}

// EventChunk contains consecutive events of one attempt as they are stored and sent. Each line is
// an event: its type, a space and its data. The event in the first line has the number First, and
// the numbers increase by one from line to line.
type EventChunk struct {
	Fence int64
	First int
	Lines []byte
}

// AppendEventLine appends an event of a chunk to lines. The argument data is a JSON object in one
// line.
func AppendEventLine(lines []byte, kind string, data []byte) []byte {
	lines = append(lines, kind...)
	lines = append(lines, ' ')
	lines = append(lines, data...)
	return append(lines, '\n')
}

// Events parses a chunk. The events' data shares the chunk's memory.
func (c EventChunk) Events() ([]Event, error) {
	events := make([]Event, 0, bytes.Count(c.Lines, []byte{'\n'}))
	n := c.First
	for line := range bytes.Lines(c.Lines) {
		line, whole := bytes.CutSuffix(line, []byte{'\n'})
		kind, data, spaced := bytes.Cut(line, []byte{' '})
		if !whole || !spaced || !isEventType(kind) || len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
			return nil, fmt.Errorf("reading events: line %d is not an event", n-c.First+1)
		}
		events = append(events, Event{ID: EventID{Fence: c.Fence, N: n}, Type: eventType(kind), Data: data})
		n++
	}
	return events, nil
}

// isEventType reports whether a text has the form of a type. Types of a later release are accepted.
func isEventType(kind []byte) bool {
	for _, b := range kind {
		if (b < 'a' || b > 'z') && b != '.' && b != '_' {
			return false
		}
	}
	return len(kind) > 0
}

// eventType converts a type to a string, without allocating for the most frequent type.
func eventType(kind []byte) string {
	if string(kind) == EventMessageDelta {
		return EventMessageDelta
	}
	return string(kind)
}

// CreatedEvent returns the first event of every log, which is derived from the run's row.
func CreatedEvent(run *Run) (Event, error) {
	data, err := json.Marshal(struct {
		AgentID    *string `json:"agentId"`
		TemplateID *string `json:"templateId"`
		SessionID  string  `json:"sessionId"`
		Trigger    Trigger `json:"trigger"`
		CreatedAt  Time    `json:"createdAt"`
	}{run.AgentID, run.TemplateID, run.SessionID, run.Trigger, run.CreatedAt})
	if err != nil {
		return Event{}, fmt.Errorf("rendering event: %w", err)
	}
	return Event{ID: CreatedID, Type: EventRunCreated, Data: data}, nil
}

// StartedEvent returns the event of a run's first start, which is derived from the run's row.
func StartedEvent(at Time) Event {
	data := at.UTC().AppendFormat([]byte(`{"startedAt":"`), timeLayout)
	return Event{ID: StartedID, Type: EventRunStarted, Data: append(data, `"}`...)}
}

// DeltaData returns the data of an event with a piece of the answer.
func DeltaData(text string) ([]byte, error) {
	return json.Marshal(struct {
		Text string `json:"text"`
	}{text})
}

// RestartedData returns the data of the first event of a later attempt. afterStep is the number of
// recorded steps after which the attempt continues.
func RestartedData(afterStep int) []byte {
	return append(strconv.AppendInt([]byte(`{"afterStep":`), int64(afterStep), 10), '}')
}

// EndedEvent returns the last event in the log of a finished run. The argument result is the
// rendered run object, which is copied unchanged.
func EndedEvent(id EventID, status RunStatus, result []byte) Event {
	data := make([]byte, 0, len(`{"run":}`)+len(result))
	data = append(append(append(data, `{"run":`...), result...), '}')
	return Event{ID: id, Type: "run." + string(status), Data: data}
}
