package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const maxEvent = 1 << 20 // bytes

// Transcript is a run's stream of server-sent events as a client assembles it.
type Transcript struct {
	Started func()                  // called at the first run.started
	Delta   func(text string) error // called with each piece of the answer; if nil, the pieces are collected for Check

	events map[string]int // by kind
	text   strings.Builder
	ended  *Run
}

// read handles all events of a stream.
func (t *Transcript) read(stream io.Reader) error {
	t.events = map[string]int{}
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	kind := ""
	for lines.Scan() {
		if name, found := strings.CutPrefix(lines.Text(), "event: "); found {
			kind = name
		}
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			if err := t.event(kind, data); err != nil {
				return err
			}
		}
	}

	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	return nil
}

func (t *Transcript) event(kind, raw string) error {
	var data struct {
		Text string `json:"text"`
		Run  *Run   `json:"run"`
	}
	if err := json.Unmarshal([]byte(raw), &data); err != nil {
		return fmt.Errorf("reading event %s: %w", kind, err)
	}

	t.events[kind]++
	switch kind {
	case "run.started":
		if t.events[kind] == 1 {
			t.Started()
		}
	case "run.restarted":
		t.text.Reset()
	case "message.delta":
		if t.Delta != nil {
			return t.Delta(data.Text)
		}
		t.text.WriteString(data.Text)
	case "run.completed", "run.failed", "run.cancelled", "run.timed_out":
		t.ended = data.Run
	}
	return nil
}

// Check returns an error unless the stream contained one complete run with the answer to message.
func (t *Transcript) Check(message string) error {
	switch {
	case t.ended == nil:
		return errors.New("the stream ended before its run")
	case t.events["run.created"] != 1 || t.events["run.started"] != 1 || t.events["run.completed"] != 1:
		return fmt.Errorf("the stream has the events %v", t.events)
	case t.text.String() != t.ended.Message:
		return fmt.Errorf("the pieces are %q, the answer is %q", t.text.String(), t.ended.Message)
	}
	return t.ended.Check(message)
}
