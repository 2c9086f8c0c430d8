package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckEvents fails the test unless a text is whole server-sent events and comments as the document has
// them. It is for streams that were read in part; Check does it for whole ones.
func CheckEvents(t testing.TB, text []byte) {
	t.Helper()
	c, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.events("#/components/schemas/RunEvent", text); err != nil {
		t.Errorf("the events are not as openapi.yaml says: %v\n%.2000s", err, text)
	}
}

// events validates a stream: each block is a comment, or the lines id, event and data of one event.
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
			continue // a comment
		}
		if err := c.event(schema, block); err != nil {
			return fmt.Errorf("%w in event %q", err, block)
		}
	}
	return nil
}

func (c *Contract) event(schema, block string) error {
	lines := strings.Split(block, "\n")
	if len(lines) != 3 {
		return fmt.Errorf("%d lines, not id, event and data", len(lines))
	}
	value := map[string]any{}
	for i, name := range []string{"id", "event", "data"} {
		text, ok := strings.CutPrefix(lines[i], name+": ")
		if !ok {
			return fmt.Errorf("line %d does not begin with %s", i+1, name)
		}
		value[name] = text
	}
	data, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.TrimPrefix(lines[2], "data: ")))
	if err != nil {
		return fmt.Errorf("reading data: %w", err)
	}
	value["data"] = data
	return c.valid(schema, value)
}
