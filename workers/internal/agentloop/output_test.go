package agentloop_test

import (
	"encoding/json"
	"errors"
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

// TestAnswersMatchTheirSchema checks the outputs of runs for several answers of models.
func TestAnswersMatchTheirSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema  string
		answers []string
		want    string // the data, or the text of the error
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

// TestValuesAreCited runs an agent with a source. The citation of a value is kept if the source
// contains the value.
func TestValuesAreCited(t *testing.T) {
	t.Parallel()
	_, tools := searching(t)
	model := scripted.New("scripted",
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

// TestARepairIsDoneAgain checks a run whose worker is lost after an answer that does not match the
// schema, and before its correction. The next attempt continues after the recorded steps, and asks
// for a correction itself.
func TestARepairIsDoneAgain(t *testing.T) {
	t.Parallel()
	_, tools := searching(t)
	use := llm.Usage{InputTokens: 1, OutputTokens: 1}
	search := scripted.Call{ToolCalls: []llm.ToolCall{{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{}`)}}, Usage: use}
	wrong := scripted.Call{Deltas: []string{`{"data":{"name":"Luna"},"citations":[]}`}, Usage: use}
	right := scripted.Call{Deltas: []string{`{"data":{"name":"Luna","watts":330},"citations":[{"path":"/watts","source":1}]}`}, Usage: use}
	lost := scripted.Call{Err: errors.New("the worker is gone")}

	journal := newMemory()
	in := agentloop.Input{Message: "m", Tools: tools, Contract: contract(t, lampSchema), Model: scripted.New("scripted", search, wrong, lost)}
	if _, err := newLoop().Run(t.Context(), in, journal, nil); err == nil {
		t.Fatal("the first attempt completed")
	}
	if len(journal.steps) != 2 {
		t.Fatalf("%d steps are recorded, want the model's turn and its tool call", len(journal.steps))
	}

	// A corrected answer may follow further tool calls.
	again := scripted.Call{ToolCalls: []llm.ToolCall{{ID: "b", Name: "webSearch", Arguments: json.RawMessage(`{"q":1}`)}}, Usage: use}
	model := scripted.New("scripted", wrong, again, right)
	var h eventLog
	in.Model = model
	out, err := newLoop().Run(t.Context(), in, journal, h.add)
	if err != nil {
		t.Fatal(err)
	}
	if string(out.Data) != `{"name":"Luna","watts":330}` || len(out.Citations) != 1 || len(out.ToolCalls) != 2 || out.Turns != 4 || !out.Turn.Whole() {
		t.Errorf("data %s, citations %v, %d calls, %d turns, %+v", out.Data, out.Citations, len(out.ToolCalls), out.Turns, out.Turn)
	}
	for _, m := range out.Turn.Messages {
		if strings.Contains(m.Text, "does not match") || m.Text == wrong.Deltas[0] {
			t.Errorf("the session's history has the rejected answer: %+v", m)
		}
	}
	if all := strings.Join(h.lines, "; "); strings.Count(all, "output.delta") != 1 || strings.Contains(all, `"Luna"},`) {
		t.Errorf("events %s", all)
	}
	if last := model.Requests()[1].Messages; !model.Requests()[1].Correction || !strings.Contains(last[len(last)-1].Text, "the whole answer") {
		t.Errorf("the request for a correction is %+v", last)
	}
}

// TestATruncatedAnswerIsNotCorrected checks answers that end at the output limit. If the JSON is
// not complete, the run fails after one call. If it is complete, the run completes.
func TestATruncatedAnswerIsNotCorrected(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"name":"Luna","wat`:        agentloop.CodeModelTruncated,
		``:                           agentloop.CodeModelTruncated,
		`{"name":"Luna","watts":7}`:  "",
		`{"name":"Luna","watts":7},`: agentloop.CodeModelTruncated,
	} {
		model := scripted.Forever("scripted", scripted.Call{
			Deltas: []string{answer}, Stop: llm.StopLength, Usage: llm.Usage{InputTokens: 1, OutputTokens: 1},
		})
		var h eventLog
		in := agentloop.Input{Message: "m", Model: model, Contract: contract(t, lampSchema)}
		out, err := newLoop().Run(t.Context(), in, newMemory(), h.add)
		if len(model.Requests()) != 1 || out.Turns != 1 || out.Usage.OutputTokens != 1 {
			t.Errorf("%s: %d calls, %d turns, usage %+v", answer, len(model.Requests()), out.Turns, out.Usage)
		}
		if want == "" {
			if err != nil || string(out.Data) != answer || out.StopReason != llm.StopLength {
				t.Errorf("%s: %s, %s, %v", answer, out.Data, out.StopReason, err)
			}
			continue
		}
		e := codeFor(t, err)
		if e.Code != want || e.Retryable || len(e.Mismatches) > 0 || !strings.Contains(e.Message, "output limit") || len(h.lines) > 0 {
			t.Errorf("%s: %+v, events %v", answer, e, h.lines)
		}
	}
}
