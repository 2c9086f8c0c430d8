package offline_test

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
)

// The offline models obey the settings that make sense without a language model.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, message, want string
		stop                []string
		limit               int64
		reason              llm.StopReason
	}{
		{"no settings", "one two three", "echo: one two three", nil, 0, llm.StopEnd},
		{"a text that ends the answer", "one two three", "echo: one ", []string{"two"}, 0, llm.StopEnd},
		{"the first of several", "one two three", "echo: ", []string{"three", "one"}, 0, llm.StopEnd},
		{"a text that is not there", "one two three", "echo: one two three", []string{"four"}, 0, llm.StopEnd},
		{"stopped before the limit", "one two three", "echo: one ", []string{"two"}, 2, llm.StopEnd},
		{"stopped after the limit", "one two three", "echo: one", []string{"three"}, 2, llm.StopLength},
	} {
		var text strings.Builder
		req := llm.Request{
			Messages: []llm.Message{{Role: llm.RoleUser, Text: c.message}}, MaxTokens: c.limit, Settings: domain.ModelSettings{Stop: c.stop},
		}
		res, err := offline.Echo{}.Stream(t.Context(), req, func(d llm.Delta) { text.WriteString(d.Text) })
		if err != nil || res.Text != c.want || res.StopReason != c.reason || text.String() != c.want {
			t.Errorf("%s: %q, %s, %v", c.name, res.Text, res.StopReason, err)
		}
	}

	tools := []llm.ToolSpec{{Name: "ping", Schema: []byte(`{"type":"object"}`)}, {Name: "reboot", Schema: []byte(`{"type":"object"}`)}}
	for parallel, most := range map[bool]int{true: 2, false: 1} {
		res, err := offline.Model{}.Stream(t.Context(), llm.Request{
			Messages: []llm.Message{{Role: llm.RoleUser, Text: "ping and reboot"}}, Tools: tools,
			Settings: domain.ModelSettings{ParallelToolCalls: &parallel},
		}, func(llm.Delta) {})
		if err != nil || len(res.ToolCalls) != most {
			t.Errorf("parallel %v: %d calls, %v", parallel, len(res.ToolCalls), err)
		}
	}
}
