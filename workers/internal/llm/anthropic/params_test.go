package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/workers/internal/llm"
)

// TestArgumentsComeAsTheyAreWritten checks an option that is sent only to Anthropic's own
// service.
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
