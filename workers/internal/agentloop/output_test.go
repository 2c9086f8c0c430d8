package agentloop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
)

const lampSchema = `{"type":"object","additionalProperties":false,"required":["name","watts"],
	"properties":{"name":{"type":"string"},"watts":{"type":"number"},"note":{"type":"string"}}}`

func contract(t *testing.T, raw string) *agentloop.Contract {
	t.Helper()
	c, err := agentloop.NewContract(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAnswersMatchTheirSchema lists what a model may answer, and the output of the run.
func TestAnswersMatchTheirSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema  string
		answers []string
		want    string // the data, or the error
	}{
		"valid":            {lampSchema, []string{`{ "name": "Luna", "watts": 7 }`}, `{"name":"Luna","watts":7}`},
		"in a code fence":  {lampSchema, []string{"```json\n{\"name\":\"Luna\",\"watts\":7}\n```"}, `{"name":"Luna","watts":7}`},
		"corrected":        {lampSchema, []string{`{"name":"Luna"}`, `{"name":"Luna","watts":7}`}, `{"name":"Luna","watts":7}`},
		"prose, corrected": {lampSchema, []string{`It is Luna.`, `{"name":"Luna","watts":7}`}, `{"name":"Luna","watts":7}`},
		"never valid":      {lampSchema, []string{`{"name":"Luna"}`, `{"name":"Luna","watts":"7"}`, `{"name":"Luna","watts":7}`}, "output_invalid [/watts]"},
		"a list":           {`{"type":"array","items":{"type":"integer"}}`, []string{`{"data":[1,2]}`}, `[1,2]`},
		"a bare list":      {`{"type":"array","items":{"type":"integer"}}`, []string{`[1,2]`}, `[1,2]`},
		"field data":       {`{"type":"object","required":["data"],"properties":{"data":{"type":"string"}}}`, []string{`{"data":"x"}`}, `{"data":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []scripted.Call
			for _, a := range c.answers {
				calls = append(calls, scripted.Call{Deltas: []string{a[:1], a[1:]}, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1}})
			}
			model := scripted.New("scripted", calls...)
			var h eventLog
			in := agentloop.Input{Message: "m", Model: model, Contract: contract(t, c.schema)}
			out, err := newLoop().Run(t.Context(), in, newMemory(), h.add)
			if err != nil {
				e := codeFor(t, err)
				got := e.Code
				for _, m := range e.Mismatches {
					got += " [" + m.Path + "]"
				}
				if got != c.want || len(h.lines) > 0 || out.Turns != 2 {
					t.Errorf("error %s in %d turns, events %v", got, out.Turns, h.lines)
				}
				return
			}
			if string(out.Data) != c.want || out.Text != c.want || !out.Turn.Whole() || len(out.Turn.Messages) != 2 {
				t.Errorf("data %s, text %s, turn %+v; want %s", out.Data, out.Text, out.Turn, c.want)
			}
			if want := fmt.Sprintf(`1 message.delta %q; 1 output.delta ""`, c.want); strings.Join(h.lines, "; ") != want {
				t.Errorf("events %v, want %s", h.lines, want)
			}
		})
	}
}

// TestValuesAreCited runs an agent with a source: a citation of a value is kept if the value stands in
// the source.
func TestValuesAreCited(t *testing.T) {
	t.Parallel()
	model, tools := searching(t)
	model = scripted.New("scripted",
		scripted.Call{Deltas: []string{"Let me look."}, ToolCalls: []llm.ToolCall{{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{}`)}}},
		scripted.Call{Deltas: []string{`{"data":{"name":"Größe \"x\"","watts":330},"citations":[` +
			`{"path":"/watts","source":1},{"path":"/name","source":1},{"path":"/watts","source":9},{"path":"/none","source":1}]}`}},
	)
	var h eventLog
	out, err := newLoop().Run(t.Context(), agentloop.Input{Message: "m", Model: model, Tools: tools, Contract: contract(t, lampSchema)}, newMemory(), h.add)
	if err != nil {
		t.Fatal(err)
	}
	if out.Text != `{"name":"Größe \"x\"","watts":330}` || out.CitationsRemoved != 3 || len(out.Citations) != 1 {
		t.Fatalf("text %s, citations %+v, removed %d", out.Text, out.Citations, out.CitationsRemoved)
	}
	c := out.Citations[0]
	if cited := string([]rune(out.Text)[c.StartIndex:c.EndIndex]); cited != "330" || c.Path != "/watts" || c.ID != 1 || c.CitedText != "330" {
		t.Errorf("cited %s, citation %+v", cited, c)
	}
	for _, line := range h.lines {
		if strings.Contains(line, "look") {
			t.Errorf("event %s shows text that is not the answer", line)
		}
	}
	request := model.Requests()[1]
	if !strings.Contains(string(request.Output), `"citations"`) || !strings.Contains(request.System, "JSON Pointer") {
		t.Errorf("schema %s, system %s", request.Output, request.System)
	}
}
