package cli

import (
	"encoding/json"
	"os"
)

// Output contains the option for the JSON Schema of the answer.
type Output struct {
	Schema string `name:"schema" type:"existingfile" placeholder:"FILE" help:"JSON Schema that the answer must match; the answer is then JSON."`
}

// addTo adds the JSON Schema to a request's body, if the user has given one.
func (o Output) addTo(body map[string]any) error {
	if o.Schema == "" {
		return nil
	}
	schema, err := os.ReadFile(o.Schema)
	if err != nil {
		return exit(ExitArguments, "reading schema: %w", err)
	}
	if !json.Valid(schema) {
		return exit(ExitArguments, "reading schema: %s is not JSON", o.Schema)
	}
	body["output"] = map[string]any{"schema": json.RawMessage(schema)}
	return nil
}
