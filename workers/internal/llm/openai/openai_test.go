package openai_test

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
	"parley/shared/testkit/openaistub"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/breaker"
	"parley/workers/internal/llm/llmtest"
	"parley/workers/internal/llm/openai"
	"parley/workers/internal/llm/remote"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	echoing := func(t *testing.T) llm.Model {
		t.Helper()
		return against(t, openaistub.New())
	}
	stalling := func(t *testing.T) llm.Model {
		t.Helper()
		stub := openaistub.New()
		stub.Respond(func(openaistub.Request) (openaistub.Reply, bool) {
			return openaistub.Reply{Text: "one two three", Fault: "stall"}, true
		})
		return against(t, stub)
	}
	llmtest.Run(t, llmtest.Subject{Deterministic: true, New: echoing, NewSlow: stalling}) // the stub is deterministic
}

func say(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

// TestWire looks at what is sent, as the server reads it.
func TestWire(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	stub.RequireKey("sk-leak")
	req := llmtest.Request()
	req.Messages[2].Result.Sources = []domain.Citation{{ID: 1, Title: "T", CitedText: "x"}}
	req.MaxTokens = 77
	req.Tools = []llm.ToolSpec{
		{Name: "webSearch", Description: "searches", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"maximum":9007199254740993}}}`)},
		{Name: "now"},
	}
	if _, err := against(t, stub).Stream(t.Context(), req, func(llm.Delta) {}); err != nil {
		t.Fatal(err)
	}
	got := stub.Requests()[0]
	if got.Model != "gpt-5-mini" || !got.Stream || !slices.Equal(got.Tools, []string{"webSearch", "now"}) || got.Header["Accept-Encoding"] == "" {
		t.Errorf("got %s %v %v %v", got.Model, got.Stream, got.Tools, got.Header)
	}
	body := string(got.Body)
	for _, want := range []string{
		`"stream_options":{"include_usage":true}`, `"max_tokens":77`, `"maximum":9007199254740993`, `"description":"searches"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	var roles []string
	for _, m := range got.Messages {
		roles = append(roles, m.Role)
	}
	if strings.Join(roles, ",") != "system,user,assistant,tool,tool,assistant,user" {
		t.Errorf("roles %v", roles)
	}
	calls, result, last := got.Messages[2].ToolCalls, got.Messages[3], got.Messages[6]
	if len(calls) != 2 || calls[0].ID != "c1" || calls[0].Arguments != `{"query":"tower height"}` || calls[1].Arguments != "{}" {
		t.Errorf("calls %+v", calls)
	}
	if result.ToolCallID != "c1" || !strings.HasPrefix(result.Content, `{"untrusted":true,"tool":"webSearch","output":"330 m","sources":[{"id":1`) {
		t.Errorf("result %+v", result)
	}
	if !strings.HasPrefix(last.Content, "Thank you. And in feet?\n\n") || !strings.HasSuffix(last.Content, `{"unit":"feet"}`) {
		t.Errorf("last %q", last.Content)
	}
}

func TestBadRequestsAreNotSent(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	m := against(t, stub)
	for _, req := range []llm.Request{
		{Messages: []llm.Message{{Role: "narrator", Text: "x"}}},
		{Messages: []llm.Message{{Role: llm.RoleTool}}},
		{Tools: []llm.ToolSpec{{Name: "x", Schema: json.RawMessage(`[]`)}}},
	} {
		var e *llm.Error
		if _, err := m.Stream(t.Context(), req, func(llm.Delta) {}); !errors.As(err, &e) || e.Kind != llm.KindInvalid || e.Retryable {
			t.Errorf("got %v", err)
		}
	}
	if stub.Total() != 0 {
		t.Errorf("%d requests", stub.Total())
	}
}

// TestNothingFromTheEnvironment sets what openai-go's own client would read.
func TestNothingFromTheEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	t.Setenv("OPENAI_ORG_ID", "org-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Environment: yes")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	p, err := openai.New(openai.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	res, err := m.Stream(t.Context(), say("hi"), func(llm.Delta) {})
	if err != nil || res.Text != "echo: hi" {
		t.Fatalf("got %+v, %v", res, err)
	}
	header := stub.Requests()[0].Header
	for _, name := range []string{"Authorization", "Openai-Organization", "X-Environment"} {
		if header[name] != "" {
			t.Errorf("%s: %q was sent", name, header[name])
		}
	}

	// A proxy would be dialled in the server's place.
	dialled := make(chan string, 1)
	p, err = openai.New(openai.Config{BaseURL: "http://model.test/v1", Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		dialled <- address
		return nil, net.ErrClosed
	}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = p.Model("m"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stream(t.Context(), say("hi"), func(llm.Delta) {}); err == nil {
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
		"fault 409: a b c":     {llm.KindUnavailable, true, true},
		"fault 408: a b c":     {llm.KindTimeout, true, false},
		"fault 429: a b c":     {llm.KindRateLimited, true, true},
		"fault 413: a b c":     {llm.KindInvalid, false, true},
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
			stub := openaistub.New()
			_, err := against(t, stub).Stream(t.Context(), say(prompt), func(llm.Delta) {})
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != want.kind || e.Retryable != want.retryable || e.Unused != want.unused || stub.Count(prompt) != 1 {
				t.Errorf("got %#v after %d requests", e, stub.Count(prompt))
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	p, err := openai.New(openai.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	var e *llm.Error
	if _, err := m.Stream(t.Context(), say("hi"), func(llm.Delta) {}); !errors.As(err, &e) || e.Kind != llm.KindUnavailable || !e.Retryable || !e.Unused {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	other := httptest.NewServer(stub)
	t.Cleanup(other.Close)
	m := against(t, http.RedirectHandler(other.URL+"/v1/chat/completions", http.StatusTemporaryRedirect))
	var e *llm.Error
	if _, err := m.Stream(t.Context(), say("hi"), func(llm.Delta) {}); !errors.As(err, &e) || e.Kind != llm.KindBadResponse || e.Retryable {
		t.Errorf("got %v", err)
	}
	if stub.Total() != 0 {
		t.Error("the redirect was followed, key and prompt with it")
	}
}

func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		line := []byte(`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1000) + `"}}]}` + "\n\n")
		for r.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	p, err := openai.New(openai.Config{BaseURL: server.URL, ResponseBytes: 100_000})
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
	if !errors.As(err, &e) || e.Kind != llm.KindTooLarge || e.Retryable || got > 100_000 {
		t.Errorf("got %v after %d bytes", err, got)
	}
}

func TestModelNames(t *testing.T) {
	t.Parallel()
	p, err := openai.New(openai.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"gpt-4o-mini": 128_000, "meta-llama/Llama-3.3-70B": 32_000, "gpt-5-mini": 400_000} {
		if m, err := p.Model(name); err != nil || m.Info() != (llm.Info{Name: "openai/" + name, ContextTokens: size}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "two words", "line\nbreak"} {
		var e *llm.Error
		if _, err := p.Model(name); !errors.As(err, &e) || e.Kind != llm.KindUnknownModel {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// piped gives a model of a server inside the test's bubble.
func piped(t *testing.T, handler http.Handler, limits remote.Limits) llm.Model {
	t.Helper()
	p, err := openai.New(openai.Config{BaseURL: "http://model.test/v1", Dial: llmtest.Serve(t, handler), Limits: limits})
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
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("w ", n)) }
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
		{name: "keep-alives are no chunks", serve: trickle(": still here\n\n", time.Second), took: 30 * time.Second, kind: llm.KindTimeout},
		{
			name: "total", serve: trickle(`data: {"choices":[{"index":0,"delta":{"content":"x"}}]}`+"\n\n", 25*time.Second),
			took: 120 * time.Second, kind: llm.KindTimeout,
		},
		{
			name: "complete, and then nothing", serve: trickle(`data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`+"\n\n", time.Hour),
			took: 2 * time.Second,
		},
		{name: "many chunks", prompt: words(500), took: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handler := http.Handler(openaistub.New())
				if tt.serve != nil {
					handler = tt.serve
				}
				m := piped(t, handler, remote.Limits{})
				began := time.Now()
				_, err := m.Stream(t.Context(), say(tt.prompt), func(llm.Delta) {})
				took := time.Since(began)
				var e *llm.Error
				if errors.As(err, &e) != (tt.kind != "") || (e != nil && (e.Kind != tt.kind || !e.Retryable || e.Answering != (tt.name == "total"))) || took != tt.took {
					t.Errorf("got %v after %v", err, took)
				}
			})
		})
	}
}

// trickle sends one line now and again until the client leaves.
func trickle(line string, every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
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
		p, err := openai.New(openai.Config{BaseURL: "http://model.test/v1", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
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
		_, err = m.Stream(t.Context(), say("hi"), func(llm.Delta) {})
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
		m := piped(t, openaistub.New(), remote.Limits{Total: time.Hour})
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
		"written without end": {trickle(`data: {"choices":[{"index":0,"delta":{"content":"x"}}]}`+"\n\n", 10*time.Second), 0},
		"read slowly":         {openaistub.New(), 50 * time.Second},
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
