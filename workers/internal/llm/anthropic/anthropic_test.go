package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
	"parley/shared/testkit/anthropicstub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/anthropic"
	"parley/workers/internal/llm/breaker"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/remote"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	echoing := func(t *testing.T) llm.Model {
		t.Helper()
		return against(t, anthropicstub.New())
	}
	stalling := func(t *testing.T) llm.Model {
		t.Helper()
		stub := anthropicstub.New()
		stub.Script(anthropicstub.Reply{Text: "one two three", Fault: "stall"})
		return against(t, stub)
	}
	llmtest.Run(t, llmtest.Subject{Deterministic: true, New: echoing, NewSlow: stalling}) // the stub is deterministic
}

func say(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

func ignore(llm.Delta) {}

type textBlock struct {
	Text string `json:"text"`
}

// sent is a request's body, as the protocol has it.
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

// shape writes out roles and blocks.
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

func send(t *testing.T, model string, req llm.Request) sent {
	t.Helper()
	stub := anthropicstub.New()
	stub.RequireKey("sk-leak")
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	p, err := anthropic.New(anthropic.Config{APIKey: "sk-leak", BaseURL: server.URL + "/gateway"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stream(t.Context(), req, ignore); err != nil {
		t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	var s sent
	if err := json.Unmarshal(stub.Requests()[0].Body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWire looks at what is sent, as the server reads it.
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

// TestAnyPromptIsSent gives what other providers' models and callers leave behind; the stub refuses what the API does.
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

// TestThinkingGoesBack sends an answer's thoughts to the model that had them, and to no other.
func TestThinkingGoesBack(t *testing.T) {
	t.Parallel()
	res, err := replay(t, "thinking.sse", nil).Stream(t.Context(), question(), ignore)
	if err != nil {
		t.Fatal(err)
	}
	req := question()
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
		p, err := anthropic.New(anthropic.Config{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Model(tt.model)
		if err != nil || m.Info() != (llm.Info{Name: "anthropic/" + tt.model, ContextTokens: tt.context}) {
			t.Errorf("%s: %+v, %v", tt.model, m.Info(), err)
		}
		req := say("hi")
		req.MaxTokens = tt.asked
		if got := send(t, tt.model, req); got.MaxTokens != tt.limit {
			t.Errorf("%s asked for %d: %d", tt.model, tt.asked, got.MaxTokens)
		}
	}
}

func TestModelNames(t *testing.T) {
	t.Parallel()
	p, err := anthropic.New(anthropic.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "two words", "line\nbreak"} {
		var e *llm.Error
		if _, err := p.Model(name); !errors.As(err, &e) || e.Kind != llm.KindUnknownModel {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestBadRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	stub := anthropicstub.New()
	m := against(t, stub)
	for _, req := range []llm.Request{
		{Messages: []llm.Message{{Role: "narrator", Text: "x"}}},
		{Messages: []llm.Message{{Role: llm.RoleTool}}},
		{Tools: []llm.ToolSpec{{Name: "x", Schema: json.RawMessage(`[]`)}}},
		{Tools: []llm.ToolSpec{{Name: "x", Schema: json.RawMessage(`null`)}}},
	} {
		var e *llm.Error
		if _, err := m.Stream(t.Context(), req, ignore); !errors.As(err, &e) || e.Kind != llm.KindInvalid || e.Retryable {
			t.Errorf("got %v", err)
		}
	}
	if stub.Total() != 0 {
		t.Errorf("%d requests", stub.Total())
	}
}

// TestNothingFromTheEnvironment sets what the SDK's own client would read.
func TestNothingFromTheEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Environment: yes")
	t.Setenv("ANTHROPIC_PROFILE", "absent")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	stub := anthropicstub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	p, err := anthropic.New(anthropic.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	res, err := m.Stream(t.Context(), say("hi"), ignore)
	if err != nil || res.Text != "echo: hi" {
		t.Fatalf("got %+v, %v", res, err)
	}
	header := stub.Requests()[0].Header
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Environment"} {
		if header[name] != "" {
			t.Errorf("%s: %q was sent", name, header[name])
		}
	}

	// A proxy would be dialled in the server's place.
	dialled := make(chan string, 1)
	p, err = anthropic.New(anthropic.Config{BaseURL: "http://model.test", Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, net.ErrClosed
	}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = p.Model("m"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stream(t.Context(), say("hi"), ignore); err == nil {
		t.Error("a refused connection gave an answer")
	}
	if got := <-dialled; got != "model.test:80" {
		t.Errorf("dialled %s", got)
	}
}

// TestStubFaults tries the failures of a live server, and that none is retried here.
func TestStubFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind      llm.Kind
		retryable bool
		unused    bool // for sure
	}{
		"fault refuse: a b c":  {llm.KindUnavailable, true, false},
		"fault 500: a b c":     {llm.KindUnavailable, true, false},
		"fault 503: a b c":     {llm.KindUnavailable, true, true},
		"fault 529: a b c":     {llm.KindUnavailable, true, true},
		"fault 408: a b c":     {llm.KindTimeout, true, false},
		"fault 429: a b c":     {llm.KindRateLimited, true, true},
		"fault 413: a b c":     {llm.KindContextLength, false, true},
		"fault 422: a b c":     {llm.KindInvalid, false, true},
		"fault quota: a b c":   {llm.KindQuota, false, true},
		"fault context: a b c": {llm.KindContextLength, false, true},
		"fault html: a b c":    {llm.KindBadResponse, false, false},
		"fault cut: a b c":     {llm.KindTruncated, true, false},
		"fault eof: a b c":     {llm.KindTruncated, true, false},
		"fault badjson: a b c": {llm.KindBadResponse, true, false},
		"fault event: a b c":   {llm.KindUnavailable, true, false},
		"fault cutcall: a":     {llm.KindTruncated, true, false},
	}
	for prompt, want := range tests {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			stub := anthropicstub.New()
			_, err := against(t, stub).Stream(t.Context(), say(prompt), ignore)
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != want.kind || e.Retryable != want.retryable || e.Unused != want.unused || stub.Count(prompt) != 1 {
				t.Errorf("got %#v after %d requests", e, stub.Count(prompt))
			}
		})
	}
}

// TestScript plays a model with a mind of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	stub := anthropicstub.New()
	stub.Script(
		anthropicstub.Reply{Deltas: []string{"He", "", "y [", "1]"}, ToolCalls: []anthropicstub.ToolCall{{ID: "x", Name: "pay", Arguments: `{"to":"me"`}}},
		anthropicstub.Reply{Text: "done"},
	)
	m := against(t, stub)
	var deltas []string
	res, err := m.Stream(t.Context(), say("a"), func(d llm.Delta) { deltas = append(deltas, d.Text) })
	if err != nil || !slices.Equal(deltas, []string{"He", "y [", "1]"}) || summary(res) != `"Hey [1]" tool_calls 1/4 | x pay malformed {"to":"me"` {
		t.Errorf("got %q, %s, %v", deltas, summary(res), err)
	}
	for _, want := range []string{"done", "echo: a"} {
		if res, err := m.Stream(t.Context(), say("a"), ignore); err != nil || res.Text != want {
			t.Errorf("got %q, %v", res.Text, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	p, err := anthropic.New(anthropic.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	var e *llm.Error
	if _, err := m.Stream(t.Context(), say("hi"), ignore); !errors.As(err, &e) || e.Kind != llm.KindUnavailable || !e.Retryable || !e.Unused {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	stub := anthropicstub.New()
	other := httptest.NewServer(stub)
	t.Cleanup(other.Close)
	m := against(t, http.RedirectHandler(other.URL+"/v1/messages", http.StatusTemporaryRedirect))
	var e *llm.Error
	if _, err := m.Stream(t.Context(), say("hi"), ignore); !errors.As(err, &e) || e.Kind != llm.KindBadResponse || e.Retryable {
		t.Errorf("got %v", err)
	}
	if stub.Total() != 0 {
		t.Error("the redirect was followed, key and prompt with it")
	}
}

const delta = "event: content_block_delta\n" +
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n"

const opening = "event: content_block_start\n" +
	`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"

const closing = "event: message_delta\n" +
	`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n"

func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(opening))
		line := []byte(strings.Replace(delta, `"x"`, `"`+strings.Repeat("x", 1000)+`"`, 1))
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	p, err := anthropic.New(anthropic.Config{BaseURL: server.URL, ResponseBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	_, err = m.Stream(t.Context(), say("hi"), func(d llm.Delta) { got += len(d.Text) })
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.KindTooLarge || e.Retryable || got == 0 || got > 100_000 {
		t.Errorf("got %v after %d bytes", err, got)
	}
}

// piped gives a model of a server inside the test's bubble.
func piped(t *testing.T, handler http.Handler, limits remote.Limits) llm.Model {
	t.Helper()
	p, err := anthropic.New(anthropic.Config{BaseURL: "http://model.test", Dial: llmtest.Serve(t, handler), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLimits holds each limit to the clock, at its default.
func TestLimits(t *testing.T) {
	t.Parallel()
	words := strings.TrimSpace(strings.Repeat("w ", 500))
	const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	tests := []struct {
		name   string
		prompt string
		serve  http.HandlerFunc // instead of the stub
		took   time.Duration
		kind   llm.Kind // "" for an answer
	}{
		{name: "slow but in time", prompt: "sleep 29s: hi", took: 29 * time.Second},
		{name: "first token", prompt: "sleep 31s: hi", took: 30 * time.Second, kind: llm.KindTimeout},
		{name: "stalled for 60 s", prompt: "sleep 60s: hi", took: 30 * time.Second, kind: llm.KindTimeout},
		{name: "never answers", prompt: "fault hang: hi", took: 30 * time.Second, kind: llm.KindTimeout},
		{name: "idle", prompt: "fault stall: a b c", took: 30 * time.Second, kind: llm.KindTimeout},
		{name: "pings are no chunks", serve: trickle("", ping, time.Second), took: 30 * time.Second, kind: llm.KindTimeout},
		{name: "total", serve: trickle(opening, delta, 25*time.Second), took: 120 * time.Second, kind: llm.KindTimeout},
		{name: "complete, and then nothing", serve: trickle(opening+delta, closing, time.Hour), took: 2 * time.Second},
		{name: "many chunks", prompt: words, took: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handler := http.Handler(anthropicstub.New())
				if tt.serve != nil {
					handler = tt.serve
				}
				m := piped(t, handler, remote.Limits{})
				began := time.Now()
				_, err := m.Stream(t.Context(), say(tt.prompt), ignore)
				took := time.Since(began)
				var e *llm.Error
				if errors.As(err, &e) != (tt.kind != "") || (e != nil && (e.Kind != tt.kind || !e.Retryable || e.Answering != (tt.name == "total"))) || took != tt.took {
					t.Errorf("got %v after %v", err, took)
				}
			})
		})
	}
}

// trickle sends one line first, and another now and again until the client leaves.
func trickle(first, line string, every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(first))
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			_, _ = w.Write([]byte(line))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestConnectLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := anthropic.New(anthropic.Config{BaseURL: "http://model.test", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Model("m")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = m.Stream(t.Context(), say("hi"), ignore)
		var e *llm.Error
		if took := time.Since(began); !errors.As(err, &e) || e.Kind != llm.KindTimeout || took != 5*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// TestSlowReader lets the caller of emit take its time: the provider is not blamed for it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := piped(t, anthropicstub.New(), remote.Limits{Total: time.Hour})
		res, err := m.Stream(t.Context(), say("a b c"), func(llm.Delta) { <-time.After(40 * time.Second) })
		if err != nil || res.Text != "echo: a b c" {
			t.Errorf("got %+v, %v", res, err)
		}
	})
}

// one gives the same model whatever the name.
type one struct{ model llm.Model }

func (o one) Model(string) (llm.Model, error) { return o.model, nil }

// TestLongAnswersOpenNoBreaker: how long an answer is to become is the prompt's wish, and how fast it is read the
// caller's doing. Neither may take the model away from others.
func TestLongAnswersOpenNoBreaker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve http.Handler
		read  time.Duration // a piece
	}{
		"written without end": {trickle(opening, delta, 10*time.Second), 0},
		"read slowly":         {anthropicstub.New(), 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := breaker.New(one{piped(t, tt.serve, remote.Limits{})}).Model("m")
				if err != nil {
					t.Fatal(err)
				}
				for n := range 6 {
					began := time.Now()
					_, err := m.Stream(t.Context(), say("a b c d e f g h"), func(llm.Delta) { <-time.After(tt.read) })
					var e *llm.Error
					if !errors.As(err, &e) || e.Kind != llm.KindTimeout || !e.Answering || time.Since(began) < 2*time.Minute {
						t.Errorf("call %d: got %+v after %v", n+1, e, time.Since(began))
					}
				}
			})
		})
	}
}
