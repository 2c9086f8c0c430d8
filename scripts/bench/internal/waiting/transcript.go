package waiting

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// transcript is a stream of server-sent events as a client puts it together.
type transcript struct {
	started func()                  // called at the first run.started
	delta   func(text string) error // called with each piece; nil for nothing

	id, kind, data string // of the event whose lines are being read
	fence, n       int64  // of the last event
	text           strings.Builder
	events         map[string]int
	ended          *run
}

// read takes all lines of a stream.
func (t *transcript) read(stream io.Reader) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		if err := t.line(lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	return nil
}

// line takes one line of the stream.
func (t *transcript) line(line string) error {
	if line == "" {
		if t.kind == "" && t.data == "" {
			return nil // after a comment
		}
		err := t.event()
		t.id, t.kind, t.data = "", "", ""
		return err
	}
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "": // a comment
	case "id":
		t.id = value
	case "event":
		t.kind = value
	case "data":
		t.data += value
	default:
		return fmt.Errorf("a line %q in the stream", line)
	}
	return nil
}

// event takes a whole event; ids must rise.
func (t *transcript) event() error {
	var fence, n int64
	if _, err := fmt.Sscanf(t.id, "%d.%d", &fence, &n); err != nil {
		return fmt.Errorf("event %s has the id %q", t.kind, t.id)
	}
	if t.ended != nil || len(t.events) > 0 && (fence < t.fence || fence == t.fence && n <= t.n) {
		return fmt.Errorf("event %s with id %s after %d.%d", t.kind, t.id, t.fence, t.n)
	}
	t.fence, t.n = fence, n
	if t.events == nil {
		t.events = map[string]int{}
	}
	t.events[t.kind]++
	var data struct {
		Text string `json:"text"`
		Run  *run   `json:"run"`
	}
	if err := json.Unmarshal([]byte(t.data), &data); err != nil {
		return fmt.Errorf("reading event %s: %w", t.kind, err)
	}
	switch t.kind {
	case "run.started":
		if t.events[t.kind] == 1 {
			t.started()
		}
	case "run.restarted":
		t.text.Reset()
	case "message.delta":
		if t.delta != nil {
			return t.delta(data.Text)
		}
		t.text.WriteString(data.Text)
	case "run.completed", "run.failed", "run.cancelled", "run.timed_out":
		t.ended = data.Run
	}
	return nil
}

// check fails unless the stream was that of one run, whole, with the answer to that message.
func (t *transcript) check(message string) error {
	switch {
	case t.ended == nil:
		return errors.New("the stream ended before its run")
	case t.events["run.created"] != 1 || t.events["run.started"] != 1:
		return fmt.Errorf("the stream has the events %v", t.events)
	case t.text.String() != t.ended.Message:
		return fmt.Errorf("the pieces are %q, the answer is %q", t.text.String(), t.ended.Message)
	}
	return t.ended.check(message)
}
