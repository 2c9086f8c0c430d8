package offline_test

import (
	"encoding/json"
	"testing"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

// TestForcedCalls forces calls of a tool. Each argument is the value that the message contains for
// this argument. If there is no such value, a text argument is the whole message, and any other
// argument is empty.
func TestForcedCalls(t *testing.T) {
	t.Parallel()
	const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"city":{"anyOf":[{"type":"string"},{"type":"null"}]}},
		"required":["name","age","city"]}`
	for name, c := range map[string]struct{ schema, message, want string }{
		"in prose":     {person, "My name is Ada Lovelace, I am 36 and live in London.", `{"age":36,"city":"London","name":"Ada Lovelace"}`},
		"labelled":     {person, "name: Bo, age: 7, city: Bern", `{"age":7,"city":"Bern","name":"Bo"}`},
		"one text":     {`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`, "Bern", `{"city":"Bern"}`},
		"no number":    {`{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}`, "hello", `{"age":0}`},
		"no arguments": {`{"type":"object"}`, "hello", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := offline.Model{}.Stream(t.Context(), llm.Request{
				Messages: []llm.Message{{Role: llm.RoleUser, Text: c.message}}, ToolChoice: "extract",
				Tools: []llm.ToolSpec{{Name: "extract", Schema: json.RawMessage(c.schema)}},
			}, func(llm.Delta) {})
			if err != nil || len(res.ToolCalls) != 1 || string(res.ToolCalls[0].Arguments) != c.want {
				t.Errorf("%+v, %v; want %s", res.ToolCalls, err, c.want)
			}
		})
	}
}
