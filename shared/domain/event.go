package domain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Types of events, as the HTTP contract names them.
const (
	EventRunCreated     = "run.created"
	EventRunStarted     = "run.started"
	EventRunRestarted   = "run.restarted"
	EventMessageDelta   = "message.delta"
	EventToolStarted    = "tool.started"
	EventToolCompleted  = "tool.completed"
	EventCitationAdded  = "citation.added"
	EventRequiresAction = "run.requires_action"
	EventRunCompleted   = "run.completed"
	EventRunFailed      = "run.failed"
	EventRunCancelled   = "run.cancelled"
	EventRunTimedOut    = "run.timed_out"
)

// EventID is an event's place in its run's log: the fence of the attempt that told it, and its number there.
// The fence before any attempt is 0.
type EventID struct {
	Fence int64
	N     int
}

// The places that every log has: its run was created, and then started for the first time.
var (
	CreatedID = EventID{Fence: 0, N: 1}
	StartedID = EventID{Fence: 1, N: 1}
)

// String gives the id as the contract shows it: "<fence>.<n>".
func (id EventID) String() string { return string(id.Append(nil)) }

// Append writes the id to b.
func (id EventID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, id.Fence, 10)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(id.N), 10)
}

// After reports whether the event comes behind other in any log that has both.
func (id EventID) After(other EventID) bool {
	if id.Fence != other.Fence {
		return id.Fence > other.Fence
	}
	return id.N > other.N
}

// Follows reports whether nothing can be missing between last, the newest event that was seen, and this one.
func (id EventID) Follows(last EventID) bool {
	switch {
	case id.Fence == last.Fence:
		return id.N == last.N+1
	case last.Fence == 0: // every log has its run's first start before anything else an attempt tells
		return id == StartedID && last == CreatedID
	default:
		return id.Fence > last.Fence && id.N == 1
	}
}

// ParseEventID reads what String writes, and nothing else.
func ParseEventID(s string) (EventID, error) {
	fence, n, found := strings.Cut(s, ".")
	id := EventID{}
	var fenceErr, nErr error
	id.Fence, fenceErr = strconv.ParseInt(fence, 10, 64)
	id.N, nErr = strconv.Atoi(n)
	if !found || fenceErr != nil || nErr != nil || id.Fence < 0 || id.N < 0 || id.String() != s {
		return EventID{}, errors.New("an event id is two whole numbers with a dot between them, such as 1.7")
	}
	return id, nil
}

// Event is one entry of a run's log. Data is a JSON object in one line, without the run's id.
type Event struct {
	ID   EventID
	Type string
	Data []byte
}

// EventChunk is consecutive events of one attempt as they are stored and sent: one event a line, its type, a
// space and its data. The first line has the number First, and each further one the next.
type EventChunk struct {
	Fence int64
	First int
	Lines []byte
}

// AppendEventLine writes an event of a chunk to lines; data is a JSON object in one line.
func AppendEventLine(lines []byte, kind string, data []byte) []byte {
	lines = append(lines, kind...)
	lines = append(lines, ' ')
	lines = append(lines, data...)
	return append(lines, '\n')
}

// Events reads a chunk. Their data shares the chunk's memory.
func (c EventChunk) Events() ([]Event, error) {
	events := make([]Event, 0, bytes.Count(c.Lines, []byte{'\n'}))
	n := c.First
	for line := range bytes.Lines(c.Lines) {
		line, whole := bytes.CutSuffix(line, []byte{'\n'})
		kind, data, spaced := bytes.Cut(line, []byte{' '})
		if !whole || !spaced || !isEventType(kind) || len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
			return nil, fmt.Errorf("reading events: line %d of a chunk is not an event", n-c.First+1)
		}
		events = append(events, Event{ID: EventID{Fence: c.Fence, N: n}, Type: eventType(kind), Data: data})
		n++
	}
	return events, nil
}

func isEventType(kind []byte) bool {
	for _, b := range kind {
		if (b < 'a' || b > 'z') && b != '.' && b != '_' {
			return false
		}
	}
	return len(kind) > 0
}

// eventType gives a type as a string, without a copy for those that come by the thousand.
func eventType(kind []byte) string {
	if string(kind) == EventMessageDelta {
		return EventMessageDelta
	}
	return string(kind)
}

// CreatedEvent is what every log begins with; it is derived from the run's row.
func CreatedEvent(run Run) (Event, error) {
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

// StartedEvent says when a run was begun for the first time; it is derived from the run's row.
func StartedEvent(at Time) Event {
	data := at.UTC().AppendFormat([]byte(`{"startedAt":"`), timeLayout)
	return Event{ID: StartedID, Type: EventRunStarted, Data: append(data, `"}`...)}
}

// DeltaData is the data of a piece of the answer.
func DeltaData(text string) ([]byte, error) {
	return json.Marshal(struct {
		Text string `json:"text"`
	}{text})
}

// RestartedData is the data of an attempt's first event that is not the run's first: it goes on after that many steps.
func RestartedData(afterStep int) []byte {
	return append(strconv.AppendInt([]byte(`{"afterStep":`), int64(afterStep), 10), '}')
}

// EndedEvent is what the log of an ended run ends with; result is the run object's bytes.
func EndedEvent(id EventID, status RunStatus, result []byte) Event {
	data := make([]byte, 0, len(`{"run":}`)+len(result))
	data = append(append(append(data, `{"run":`...), result...), '}')
	return Event{ID: id, Type: "run." + string(status), Data: data}
}
