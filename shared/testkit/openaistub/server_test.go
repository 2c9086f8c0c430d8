package openaistub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/testkit/openaistub"
)

func start(t *testing.T) (*openaistub.Server, string) {
	t.Helper()
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return stub, server.URL + "/v1"
}

func request(ctx context.Context, t *testing.T, base, prompt string, stream bool) (*http.Response, error) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "stub", "stream": stream, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}

type wireChunk struct {
	Object  string `json:"object"`
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct {
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
}

// streamed reads a streamed answer. It returns the joined text, the last finish reason, and whether
// [DONE] arrived.
func streamed(t *testing.T, body io.Reader) (text, finish string, done bool, err error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			done = done || data == "[DONE]"
			continue
		}
		var c wireChunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return text, finish, done, err
		}
		for _, choice := range c.Choices {
			text += choice.Delta.Content
			for _, call := range choice.Delta.ToolCalls {
				text += call.Function.Arguments
			}
			if choice.FinishReason != nil {
				finish = *choice.FinishReason
			}
		}
	}
	return text, finish, done, lines.Err()
}

func TestEcho(t *testing.T) {
	t.Parallel()
	stub, base := start(t)

	res, err := request(t.Context(), t, base, "good  morning ", true)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	text, finish, done, err := streamed(t, res.Body)
	if err != nil || text != "echo: good  morning " || finish != "stop" || !done {
		t.Errorf("got %q, %q, done %v, %v", text, finish, done, err)
	}

	whole, err := request(t.Context(), t, base, "good  morning ", false)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Body.Close()
	var answer wireChunk
	if err := json.NewDecoder(whole.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Object != "chat.completion" || answer.Choices[0].Message.Content != text || answer.Usage.Total != 5 {
		t.Errorf("got %+v", answer)
	}
	if stub.Count("good  morning ") != 2 || stub.Total() != 2 || stub.Active() != 0 || len(stub.Requests()) != 2 {
		t.Errorf("counts: %d, %d, %d", stub.Count("good  morning "), stub.Total(), stub.Active())
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	_, base := start(t)
	tests := []struct {
		prompt, text, finish string
		status               int
		done, failed         bool
		header               string
	}{
		{prompt: "fault 429=7: hi", status: 429, header: "7"},
		{prompt: "fault 503: hi", status: 503, header: "1"},
		{prompt: "fault 500: hi", status: 500},
		{prompt: "fault context: hi", status: 400},
		{prompt: "fault quota: hi", status: 429},
		{prompt: "fault html: hi", status: 200},
		{prompt: "fault cut: a b c", status: 200, text: "echo: a", failed: true},
		{prompt: "fault eof: a b c", status: 200, text: "echo: a"},
		{prompt: "fault badjson: a b c", status: 200, text: "echo: a", failed: true},
		{prompt: "fault event: a b c", status: 200, text: "echo: a"},
		{prompt: "fault badargs=fetch: a", status: 200, text: `{"query": "unclosed`, finish: "tool_calls", done: true},
		{prompt: "fault cutcall: a", status: 200, text: `{"query":`, failed: true},
		{prompt: "fault length: a b c", status: 200, text: "echo: a", finish: "length", done: true},
		{prompt: "fault content_filter: a b c", status: 200, text: "echo: a", finish: "content_filter", done: true},
		{prompt: "fault nousage: a", status: 200, text: "echo: a", finish: "stop", done: true},
		{prompt: "tool fetch: ü and more", status: 200, text: `{"query":"ü and more"}`, finish: "tool_calls", done: true},
		{prompt: "sleepy: not a directive", status: 200, text: "echo: sleepy: not a directive", finish: "stop", done: true},
		{prompt: "sleep long: same", status: 200, text: "echo: sleep long: same", finish: "stop", done: true},
	}
	for _, tt := range tests {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			res, err := request(t.Context(), t, base, tt.prompt, true)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, finish, done, err := streamed(t, res.Body)
			if res.StatusCode != tt.status || text != tt.text || finish != tt.finish || done != tt.done || (err != nil) != tt.failed {
				t.Errorf("got %d, %q, %q, done %v, %v", res.StatusCode, text, finish, done, err)
			}
			if got := res.Header.Get("Retry-After"); got != tt.header {
				t.Errorf("Retry-After %q", got)
			}
		})
	}
}

func TestFaultCountsAndRefusal(t *testing.T) {
	t.Parallel()
	stub, base := start(t)
	for i, want := range []int{500, 500, 200} {
		res, err := request(t.Context(), t, base, "fault 500*2: hi", true)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("request %d: %d", i, res.StatusCode)
		}
	}
	if res, err := request(t.Context(), t, base, "fault refuse: hi", true); !errors.Is(err, io.EOF) {
		if err == nil {
			_ = res.Body.Close()
		}
		t.Errorf("refused: %v", err)
	}
	if stub.Count("fault 500*2: hi") != 3 {
		t.Errorf("count %d", stub.Count("fault 500*2: hi"))
	}
}

func TestKeyAndResponder(t *testing.T) {
	t.Parallel()
	stub, base := start(t)
	stub.Respond(func(r openaistub.Request) (openaistub.Reply, bool) {
		return openaistub.Reply{Text: "scripted for " + r.Model}, r.Prompt() == "script"
	})
	res, err := request(t.Context(), t, base, "script", true)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _, _, err := streamed(t, res.Body); err != nil || text != "scripted for stub" {
		t.Errorf("got %q, %v", text, err)
	}
	stub.RequireKey("k")
	refused, err := request(t.Context(), t, base, "script", true)
	if err != nil {
		t.Fatal(err)
	}
	if _ = refused.Body.Close(); refused.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the key: %d", refused.StatusCode)
	}
}

// TestScript uses a model whose replies are scripted.
func TestScript(t *testing.T) {
	t.Parallel()
	stub, base := start(t)
	stub.Script(openaistub.Reply{Deltas: []string{"a", "b c", "d"}, ToolCalls: []openaistub.ToolCall{{ID: "1", Name: "pay", Arguments: `{"n":`}}})
	for _, want := range []string{`ab cd{"n":`, "echo: hi"} {
		res, err := request(t.Context(), t, base, "hi", true)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _, err := streamed(t, res.Body)
		if _ = res.Body.Close(); err != nil || text != want {
			t.Errorf("got %q, %v", text, err)
		}
	}
}

// TestWaiting checks that the stub delays answers, and that a delay ends when the client
// disconnects.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt   string
		patience time.Duration
		want     time.Duration
	}{
		{"sleep 30s: hi", time.Hour, 30 * time.Second},
		{"sleep 10m: hi", 2 * time.Second, 2 * time.Second},
		{"fault hang: hi", 3 * time.Second, 3 * time.Second},
		{"fault stall: hi there", 4 * time.Second, 4 * time.Second},
	} {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stub := openaistub.New()
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				body := `{"stream":true,"messages":[{"role":"user","content":"` + tt.prompt + `"}]}`
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
				began := time.Now()
				stub.ServeHTTP(httptest.NewRecorder(), req)
				if took := time.Since(began); took != tt.want {
					t.Errorf("the response took %v", took)
				}
			})
		})
	}
}
