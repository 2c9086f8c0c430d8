package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// doneMark ends a stream in some protocols.
const doneMark = "[DONE]" // last data of a stream in OpenAI's protocols; not JSON

// eventPointer is the pointer to the schema of an event of Parley's own protocol.
const eventPointer = "#/components/schemas/RunEvent"

// events validates a stream. Each block of lines is a comment, or an event with the fields id,
// event and data. In some protocols, events have no name. An event has no id if the stream cannot
// be resumed after it. The argument schema is the pointer to the schema of an event. An empty
// stream is valid.
func (c *Contract) events(schema string, stream []byte) error {
	if len(stream) == 0 {
		return nil
	}
	whole, ended := bytes.CutSuffix(stream, []byte("\n\n"))
	if !ended {
		return errors.New("the stream ends within an event")
	}
	for block := range strings.SplitSeq(string(whole), "\n\n") {
		if strings.HasPrefix(block, ":") && !strings.Contains(block, "\n") {
			continue // the block is a comment
		}
		if err := c.event(schema, block); err != nil {
			return fmt.Errorf("%w in event %q", err, block)
		}
	}
	return nil
}

// event validates one event. The schema describes an object with the fields of the event, whose
// data is decoded.
func (c *Contract) event(schema, block string) error {
	lines := strings.Split(block, "\n")
	names := []string{"id", "event", "data"}
	switch {
	case strings.HasPrefix(block, "event: "):
		names = names[1:]
	case strings.HasPrefix(block, "data: "):
		names = names[2:]
	case len(lines) == 2:
		names = []string{"id", "data"}
	}

	if len(lines) != len(names) {
		return fmt.Errorf("got %d lines, want the lines %s", len(lines), strings.Join(names, ", "))
	}

	value := map[string]any{}
	for i, name := range names {
		text, ok := strings.CutPrefix(lines[i], name+": ")
		if !ok {
			return fmt.Errorf("line %d does not begin with %s", i+1, name)
		}
		value[name] = text
	}

	text := strings.TrimPrefix(lines[len(lines)-1], "data: ")
	if text == doneMark {
		value["data"] = text
		return c.valid(schema, value)
	}

	data, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("reading data: %w", err)
	}

	value["data"] = data
	if one := c.eventSchema(schema, value["event"]); value["event"] != nil && one != "" {
		schema = one // only the schema of this event type is checked, so that the error does not list all schemas
	}
	return c.valid(schema, value)
}

// eventSchema returns the pointer to the alternative of a schema that an event must match. It
// returns "" if no alternative is for this type of event. Only the schema of run events has
// alternatives.
func (c *Contract) eventSchema(schema string, event any) string {
	if !strings.HasSuffix(schema, "/text~1event-stream/schema") && schema != eventPointer {
		return ""
	}
	for _, choice := range c.doc.Components.Schemas["RunEvent"].Value.OneOf {
		names := choice.Value.Properties["event"].Value
		if names.Const == event || slices.Contains(names.Enum, event) {
			return choice.Ref
		}
	}
	return ""
}
