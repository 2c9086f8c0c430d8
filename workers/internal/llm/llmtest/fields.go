package llmtest

import (
	"encoding/json"
	"testing"
)

// Fields returns the fields with the given names of a JSON object, with their names in alphabetical
// order.
func Fields(t *testing.T, object []byte, names ...string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		t.Fatal(err)
	}

	some := map[string]json.RawMessage{}
	for _, name := range names {
		if value, ok := all[name]; ok {
			some[name] = value
		}
	}
	raw, err := json.Marshal(some)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
