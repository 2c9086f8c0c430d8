package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/testkit/anthropicstub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/anthropic"
	"parley/workers/internal/llm/llmtest"
)

func say(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

func ignore(llm.Delta) {}

// model returns a model of the server at an address; "" is Anthropic's own service.
func model(t *testing.T, address, name string) llm.Model {
	t.Helper()
	p, err := anthropic.New(anthropic.Config{APIKey: "sk-leak", BaseURL: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	m, err := p.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// against returns a model that sends its requests to the given handler.
func against(t *testing.T, h http.Handler, name string) llm.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return model(t, server.URL, name)
}

type textBlock struct {
	Text string `json:"text"`
}

// sent is the body of a request.
type sent struct {
	Model     string      `json:"model"`
	MaxTokens int64       `json:"max_tokens"`
	System    []textBlock `json:"system"`
	Messages  []struct {
		Role    string `json:"role"`
		Content []struct {
			Type      string          `json:"type"`
			Text      string          `json:"text"`
			ID        string          `json:"id"`
			Name      string          `json:"name"`
			Input     json.RawMessage `json:"input"`
			ToolUseID string          `json:"tool_use_id"`
			IsError   bool            `json:"is_error"`
			Thinking  string          `json:"thinking"`
			Signature string          `json:"signature"`
			Data      string          `json:"data"`
			Content   []textBlock     `json:"content"`
		} `json:"content"`
	} `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
	Thinking json.RawMessage   `json:"thinking"`
}

// shape returns the roles of a request's messages and the kinds of the blocks in each message, as
// text.
func (s sent) shape() string {
	var b strings.Builder
	for _, m := range s.Messages {
		b.WriteString(m.Role)
		for _, c := range m.Content {
			b.WriteString(" " + c.Type)
		}
		b.WriteString("; ")
	}
	return b.String()
}

func send(t *testing.T, name string, req llm.Request) sent {
	t.Helper()
	stub := anthropicstub.New()
	stub.RequireKey("sk-leak")
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	if _, err := model(t, server.URL+"/gateway", name).Stream(t.Context(), req, ignore); err != nil {
		t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	var s sent
	if err := json.Unmarshal(stub.Requests()[0].Body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWire checks the form in which the server receives requests.
func TestWire(t *testing.T) {
	t.Parallel()
	req := llmtest.Request()
	req.Messages[1].Text = "Let me look."
	req.Messages[2].Result.Sources = []domain.Citation{{ID: 1, Title: "T", CitedText: "x"}}
	req.MaxTokens = 77
	req.Tools = []llm.ToolSpec{
		{
			Name: "webSearch", Description: "searches",
			Schema: json.RawMessage(`{"type":"object","properties":{"n":{"maximum":9007199254740993}},"anyOf":[{"required":["n"]}]}`),
		},
		{Name: "now"},
	}
	got := send(t, "claude-haiku-4-5", req)
	if got.Model != "claude-haiku-4-5" || got.MaxTokens != 77 || len(got.System) != 1 || got.System[0].Text != "You answer briefly." || got.Thinking != nil {
		t.Errorf("got %+v", got)
	}
	want := "user text; assistant text tool_use tool_use; user tool_result tool_result; assistant text; user text; "
	if got.shape() != want {
		t.Errorf("got  %s\nwant %s", got.shape(), want)
	}
	if len(got.Tools) != 2 || string(got.Tools[0]) != `{"input_schema":{"properties":{"n":{"maximum":9007199254740993}},"type":"object"},"name":"webSearch","description":"searches"}` ||
		string(got.Tools[1]) != `{"input_schema":{"type":"object"},"name":"now"}` {
		t.Errorf("tools %s", got.Tools)
	}
	calls, results, last := got.Messages[1].Content, got.Messages[2].Content, got.Messages[4].Content
	if calls[1].ID != "c1" || calls[1].Name != "webSearch" || string(calls[1].Input) != `{"query":"tower height"}` || string(calls[2].Input) != "{}" {
		t.Errorf("calls %+v", calls)
	}
	if results[0].ToolUseID != "c1" || results[0].IsError || !results[1].IsError ||
		!strings.HasPrefix(results[0].Content[0].Text, `{"untrusted":true,"tool":"webSearch","output":"330 m","sources":[{"id":1`) {
		t.Errorf("results %+v", results)
	}
	if !strings.HasPrefix(last[0].Text, "Thank you. And in feet?\n\n") || !strings.HasSuffix(last[0].Text, `{"unit":"feet"}`) {
		t.Errorf("last %q", last[0].Text)
	}
}

// TestAnyPromptIsSent checks that unusual prompts, which callers and models of other providers can
// produce, are sent in a valid form. The stub rejects the same prompts as the real API.
func TestAnyPromptIsSent(t *testing.T) {
	t.Parallel()
	result := func(id string) llm.Message {
		return llm.Message{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: id, Name: "x", Output: []byte(`1`)}}
	}
	tests := map[string]struct {
		messages []llm.Message
		want     string
	}{
		"foreign ids and names": {[]llm.Message{
			{Role: llm.RoleUser, Text: "q"},
			{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "functions.x:0", Name: "a.b/c"}, {ID: "", Name: ""}}},
			result("functions.x:0"), result(""),
		}, "user text; assistant tool_use tool_use; user tool_result tool_result; "},
		"a message behind results": {[]llm.Message{
			{Role: llm.RoleUser, Text: "q"},
			{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "a", Name: "x"}}},
			result("a"),
			{Role: llm.RoleUser, Text: "and?"},
		}, "user text; assistant tool_use; user tool_result text; "},
		"no text":                  {[]llm.Message{{Role: llm.RoleUser, Text: " \n"}, {Role: llm.RoleAssistant}, {Role: llm.RoleUser}}, "user text; assistant text; user text; "},
		"two messages of one side": {[]llm.Message{{Role: llm.RoleUser, Text: "a"}, {Role: llm.RoleUser, Text: "b"}}, "user text text; "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := send(t, "claude-haiku-4-5", llm.Request{System: "  ", Messages: tt.messages}); got.shape() != tt.want || len(got.System) != 0 {
				t.Errorf("got  %s\nwant %s", got.shape(), tt.want)
			}
		})
	}
}

// TestThinkingGoesBack checks that a model's thinking is sent back to this model, but not to other
// models.
func TestThinkingGoesBack(t *testing.T) {
	t.Parallel()
	recorded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.ServeFile(w, r, "testdata/thinking.sse")
	})
	req := say("How high is it?")
	res, err := against(t, recorded, "claude-sonnet-5-5").Stream(t.Context(), req, ignore)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(
		req.Messages,
		llm.Message{Role: llm.RoleAssistant, Text: res.Text, ToolCalls: res.ToolCalls, Thinking: res.Thinking},
		llm.Message{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: "toolu_01A", Name: "webSearch", Output: []byte(`"330 m"`)}},
	)
	same := send(t, "claude-sonnet-5-5", req)
	if same.shape() != "user text; assistant thinking redacted_thinking tool_use; user tool_result; " {
		t.Errorf("got %s", same.shape())
	}
	blocks := same.Messages[1].Content
	if blocks[0].Thinking != "The user wants the height." || blocks[0].Signature != "EqoBCkgIARAB" || blocks[1].Data != "EmwKAhgB" {
		t.Errorf("got %+v", blocks)
	}
	if string(same.Thinking) != `{"display":"summarized","type":"adaptive"}` {
		t.Errorf("asks for %s", same.Thinking)
	}
	if other := send(t, "claude-opus-5-5", req); other.shape() != "user text; assistant tool_use; user tool_result; " {
		t.Errorf("got %s", other.shape())
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		model   string
		context int
		asked   int64
		limit   int64
	}{
		{"claude-sonnet-5-5", 1_000_000, 0, 32_000},
		{"claude-sonnet-5-5", 1_000_000, 100_000, 100_000},
		{"claude-haiku-4-5", 200_000, 0, 32_000},
		{"claude-haiku-4-5", 200_000, 100_000, 64_000},
		{"claude-3-5-haiku-latest", 200_000, 0, 8_192},
		{"claude-3-haiku-20240307", 200_000, 50_000, 4_096},
		{"qwen3", 32_000, 0, 8_192},
		{"qwen3", 32_000, 9_000, 9_000},
	}
	for _, tt := range tests {
		if got := model(t, "", tt.model).Info(); got != (llm.Info{Name: "anthropic/" + tt.model, ContextTokens: tt.context}) {
			t.Errorf("%s: %+v", tt.model, got)
		}
		req := say("hi")
		req.MaxTokens = tt.asked
		if got := send(t, tt.model, req); got.MaxTokens != tt.limit {
			t.Errorf("%s with limit %d: %d", tt.model, tt.asked, got.MaxTokens)
		}
	}
}

// TestScript checks the answers of a model whose server follows a script.
func TestScript(t *testing.T) {
	t.Parallel()
	stub := anthropicstub.New()
	stub.Script(
		anthropicstub.Reply{Deltas: []string{"He", "", "y [", "1]"}, ToolCalls: []anthropicstub.ToolCall{{ID: "x", Name: "pay", Arguments: `{"to":"me"`}}},
		anthropicstub.Reply{Text: "done"},
	)
	m := against(t, stub, "claude-sonnet-5-5")
	var deltas []string
	res, err := m.Stream(t.Context(), say("a"), func(d llm.Delta) { deltas = append(deltas, d.Text) })
	if err != nil || !slices.Equal(deltas, []string{"He", "y [", "1]"}) || res.Text != "Hey [1]" || res.StopReason != llm.StopToolCalls ||
		res.Usage.InputTokens != 1 || res.Usage.OutputTokens != 4 || len(res.ToolCalls) != 1 || res.ToolCalls[0].Malformed != `{"to":"me"` {
		t.Errorf("got %q, %+v, %v", deltas, res, err)
	}
	for _, want := range []string{"done", "echo: a"} {
		if res, err := m.Stream(t.Context(), say("a"), ignore); err != nil || res.Text != want {
			t.Errorf("got %q, %v", res.Text, err)
		}
	}
}
