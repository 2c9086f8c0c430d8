package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// TestArgumentsComeAsTheyAreWritten checks that newTool sets the option eager_input_streaming only
// if its argument eager is true.
func TestArgumentsComeAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for eager, want := range map[bool]string{
		true:  `{"input_schema":{"type":"object"},"name":"now","eager_input_streaming":true}`,
		false: `{"input_schema":{"type":"object"},"name":"now"}`,
	} {
		tool, err := newTool(llm.ToolSpec{Name: "now"}, eager)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(tool); err != nil || string(got) != want {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

func TestThoughtsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	if raw := writeThinking("m", []thinkingBlock{{Thinking: "a\x00b", Signature: "s"}}); raw != nil {
		t.Errorf("kept %s, which PostgreSQL cannot", raw)
	}
	if raw := writeThinking("m", nil); raw != nil {
		t.Errorf("got %s of nothing", raw)
	}
	for _, raw := range []string{"", "null", "[]", `{"model":"other","blocks":[{"thinking":"x"}]}`} {
		if got := readThinking(json.RawMessage(raw), "m"); len(got) != 0 {
			t.Errorf("%s: %+v", raw, got)
		}
	}
}

func TestNamesOfOtherAlphabets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "_", "a.b/c": "a_b_c", "webSearch": "webSearch", "日本": "__", strings.Repeat("x", 99): strings.Repeat("x", 64)} {
		if got := toolName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if a, b := callID("x:1"), callID("x:2"); a == b || !acceptedID.MatchString(a) || callID("call_1") != "call_1" {
		t.Errorf("got %q, %q", a, b)
	}
}

// TestAnAnswerToolCarriesTheSchema checks the request for an answer that must match a schema. It
// contains a tool whose arguments are the answer. If there are no other tools, the model must call
// this tool.
func TestAnAnswerToolCarriesTheSchema(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	for name, c := range map[string]struct {
		req  llm.Request
		want string
	}{
		"alone":            {llm.Request{Output: schema}, `"type":"tool"`},
		"beside a tool":    {llm.Request{Output: schema, Tools: []llm.ToolSpec{{Name: "now"}}}, `"name":"now"`},
		"without a schema": {llm.Request{}, `"max_tokens"`},
	} {
		m := &Model{provider: &Provider{}}
		p, err := m.params(c.req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		has := strings.Contains(string(raw), `"properties":{"a":{"type":"integer"}}`)
		if !strings.Contains(string(raw), c.want) || has != (c.req.Output != nil) || strings.Contains(string(raw), "tool_choice") != (name == "alone") {
			t.Errorf("%s: %s", name, raw)
		}
	}

	// The arguments of the call of the answer tool are the answer. If the model also calls other
	// tools, the call of the answer tool is dropped, because the model answers again after their
	// results.
	r := llm.Response{Text: "so", StopReason: llm.StopToolCalls, ToolCalls: []llm.ToolCall{{ID: "1", Name: answerTool, Arguments: json.RawMessage(`{"a":1}`)}}}
	if useAnswer(&r); r.Text != `{"a":1}` || r.StopReason != llm.StopEnd || r.ToolCalls != nil {
		t.Errorf("answer %+v", r)
	}
	r = llm.Response{StopReason: llm.StopToolCalls, ToolCalls: []llm.ToolCall{{ID: "1", Name: answerTool}, {ID: "2", Name: "now"}}}
	if useAnswer(&r); len(r.ToolCalls) != 1 || r.ToolCalls[0].Name != "now" || r.StopReason != llm.StopToolCalls {
		t.Errorf("answer beside a call %+v", r)
	}
}

// TestACallOfTheAnswerToolIsTheAnswerOfASchema checks a call of a tool that has the name of the
// answer tool. The call is the answer only if the request has a schema.
func TestACallOfTheAnswerToolIsTheAnswerOfASchema(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		`{"type":"object"}`: `{"a":1} end 0`,
		"":                  ` tool_calls 1`,
	} {
		call := &block{kind: kindToolUse, ended: true, id: "1", name: answerTool, whole: `{"a":1}`}
		a := accumulator{stop: sdk.StopReasonToolUse, calls: 1, blocks: []*block{call}}
		r, err := a.response("m", llm.Request{Output: json.RawMessage(output)})
		if got := fmt.Sprint(r.Text, " ", r.StopReason, " ", len(r.ToolCalls)); err != nil || got != want {
			t.Errorf("schema %q: %s, %v; want %s", output, got, err, want)
		}
	}
}

// TestToolChoiceWithASchema checks which tools are offered and which choice is sent if the answer
// must match a schema.
func TestToolChoiceWithASchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		choice   string
		adaptive bool
		want     string
	}{
		"free":                 {"", false, "now write_final_answer null"},
		"auto":                 {domain.ChoiceAuto, false, "now write_final_answer null"},
		"none":                 {domain.ChoiceNone, false, `write_final_answer {"name":"write_final_answer","type":"tool"}`},
		"none, adaptive":       {domain.ChoiceNone, true, "write_final_answer null"},
		"required":             {domain.ChoiceRequired, false, `now {"type":"any"}`},
		"required, adaptive":   {domain.ChoiceRequired, true, "now write_final_answer null"},
		"a function":           {"now", false, `now write_final_answer {"name":"now","type":"tool"}`},
		"a function, adaptive": {"now", true, "now write_final_answer null"},
	} {
		m := &Model{provider: &Provider{}, size: size{adaptive: c.adaptive}}
		req := llm.Request{Output: json.RawMessage(`{"type":"object"}`), Tools: []llm.ToolSpec{{Name: "now"}}, ToolChoice: c.choice}
		p, err := m.params(req)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, tool := range p.Tools {
			got += tool.OfTool.Name + " "
		}
		choice, err := json.Marshal(p.ToolChoice)
		if got += string(choice); err != nil || got != c.want || len(req.Tools) != 1 {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestATruncatedAnswerWithASchema checks responses that the output limit cut off inside a tool
// call. If the call is the answer, its incomplete text is returned. If the call is of another tool,
// Stream returns an error.
func TestATruncatedAnswerWithASchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools  []string
		output string
		stop   sdk.StopReason
		want   string
	}{
		"answer":           {[]string{answerTool}, `{}`, sdk.StopReasonMaxTokens, `{"a": length 0 <nil>`},
		"window":           {[]string{answerTool}, `{}`, sdk.StopReasonModelContextWindowExceeded, `{"a": length 0 <nil>`},
		"without a schema": {[]string{answerTool}, "", sdk.StopReasonMaxTokens, "  0 The model reached its output limit in the middle of a tool call."},
		"another tool":     {[]string{"now"}, `{}`, sdk.StopReasonMaxTokens, "  0 The model reached its output limit in the middle of a tool call."},
		"both":             {[]string{"now", answerTool}, `{}`, sdk.StopReasonMaxTokens, "  0 The model reached its output limit in the middle of a tool call."},
	} {
		a := accumulator{stop: c.stop}
		for _, name := range c.tools {
			a.calls++
			a.blocks = append(a.blocks, &block{kind: kindToolUse, id: "1", name: name, whole: `{"a":`})
		}
		r, err := a.response("m", llm.Request{Output: json.RawMessage(c.output)})
		if got := fmt.Sprint(r.Text, " ", r.StopReason, " ", len(r.ToolCalls), " ", err); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
