package modelstub_test

import (
	"bufio"
	"bytes"
	"cmp"
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

	"parley/shared/testkit/anthropicstub"
	"parley/shared/testkit/modelstub"
	"parley/shared/testkit/openaistub"
)

// stub is the stub of a provider. All tests of this file run once for each stub.
type stub struct {
	http.Handler
	*modelstub.Core

	path     string
	whole    string            // type of an answer that is not streamed
	quota    int               // status of an exhausted account
	finishes map[string]string // reasons why an answer is complete, by their names in OpenAI's protocol
}

// each runs a test for each provider with a new stub and the URL of its server.
func each(t *testing.T, test func(t *testing.T, s stub, url string)) {
	t.Helper()
	openai, anthropic := openaistub.New(), anthropicstub.New()
	for name, s := range map[string]stub{
		"openai": {openai, openai.Core, "/v1/chat/completions", "chat.completion", 429, map[string]string{
			"stop": "stop", "tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter",
		}},
		"anthropic": {anthropic, anthropic.Core, "/v1/messages", "message", 402, map[string]string{
			"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			test(t, s, server.URL+s.path)
		})
	}
}

// request returns a request that is valid in both protocols.
func request(ctx context.Context, t *testing.T, url, prompt string, stream bool) *http.Request {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "stub", "max_tokens": 100, "stream": stream, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	return req
}

// answer is the response to a request. err is the error of reading the body.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func send(t *testing.T, url, prompt string, stream bool) answer {
	t.Helper()
	res, err := http.DefaultClient.Do(request(t.Context(), t, url, prompt, stream))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body, err}
}

// event is an event of a streamed answer. Each protocol uses some of the fields.
type event struct {
	Type  string          `json:"type"`
	Error json.RawMessage `json:"error"`
	Delta struct {
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct {
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

// streamed parses a streamed answer. It returns the text and the arguments of tool calls, the reason
// why the answer is complete, and how the stream ended: "done", "error" or "" if it broke off.
func (a answer) streamed() (text, finish, end string, err error) {
	lines := bufio.NewScanner(bytes.NewReader(a.body))
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			end = "done"
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return text, finish, end, err
		}
		text += e.Delta.Text + e.Delta.PartialJSON
		finish += e.Delta.StopReason
		for _, choice := range e.Choices {
			text += choice.Delta.Content
			for _, call := range choice.Delta.ToolCalls {
				text += call.Function.Arguments
			}
			finish += choice.FinishReason
		}
		switch {
		case e.Type == "message_stop":
			end = "done"
		case e.Error != nil:
			end = "error"
		}
	}
	return text, finish, end, errors.Join(a.err, lines.Err())
}

func TestEcho(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s stub, url string) {
		t.Helper()
		res := send(t, url, "good  morning ", true)
		if got := res.header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
			t.Errorf("content type %q", got)
		}
		text, finish, end, err := res.streamed()
		if err != nil || text != "echo: good  morning " || finish != s.finishes["stop"] || end != "done" {
			t.Errorf("got %q, %q, %q, %v", text, finish, end, err)
		}

		var message struct {
			Object  string `json:"object"`
			Type    string `json:"type"`
			Choices []struct {
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Usage map[string]int `json:"usage"`
		}
		if err := json.Unmarshal(send(t, url, "good  morning ", false).body, &message); err != nil {
			t.Fatal(err)
		}
		whole := ""
		for _, choice := range message.Choices {
			whole += choice.Message.Content
		}
		for _, block := range message.Content {
			whole += block.Text
		}
		used := message.Usage
		if whole != text || cmp.Or(message.Object, message.Type) != s.whole ||
			used["prompt_tokens"]+used["input_tokens"] != 2 || used["completion_tokens"]+used["output_tokens"] != 3 {
			t.Errorf("got %+v", message)
		}
		if s.Count("good  morning ") != 2 || s.Total() != 2 || s.Active() != 0 || len(s.Requests()) != 2 {
			t.Errorf("counts: %d, %d, %d", s.Count("good  morning "), s.Total(), s.Active())
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s stub, url string) {
		t.Helper()
		for _, tt := range []struct {
			prompt, text, finish, end string
			status                    int // 0: 200
			failed                    bool
			header                    string // Retry-After
		}{
			{prompt: "fault 429=7: hi", status: 429, header: "7"},
			{prompt: "fault 503: hi", status: 503, header: "1"},
			{prompt: "fault 529: hi", status: 529, header: "1"},
			{prompt: "fault 500: hi", status: 500},
			{prompt: "fault context: hi", status: 400},
			{prompt: "fault quota: hi", status: s.quota},
			{prompt: "fault html: hi"},
			{prompt: "fault cut: a b c", text: "echo: a", failed: true},
			{prompt: "fault eof: a b c", text: "echo: a"},
			{prompt: "fault badjson: a b c", text: "echo: a", failed: true},
			{prompt: "fault event: a b c", text: "echo: a", end: "error"},
			{prompt: "fault badargs=fetch: a", text: `{"query": "unclosed`, finish: "tool_calls", end: "done"},
			{prompt: "fault cutcall: a", text: `{"query":`, failed: true},
			{prompt: "fault length: a b c", text: "echo: a", finish: "length", end: "done"},
			{prompt: "fault content_filter: a b c", text: "echo: a", finish: "content_filter", end: "done"},
			{prompt: "fault nousage: a", text: "echo: a", finish: "stop", end: "done"},
			{prompt: "tool fetch: ü and more", text: `{"query":"ü and more"}`, finish: "tool_calls", end: "done"},
			{prompt: "sleepy: not a directive", text: "echo: sleepy: not a directive", finish: "stop", end: "done"},
			{prompt: "sleep long: same", text: "echo: sleep long: same", finish: "stop", end: "done"},
		} {
			want, known := s.finishes[tt.finish]
			if tt.finish != "" && !known {
				continue // the protocol has no such reason
			}
			res := send(t, url, tt.prompt, true)
			text, finish, end, err := res.streamed()
			if res.status != cmp.Or(tt.status, 200) || text != tt.text || finish != want || end != tt.end || (err != nil) != tt.failed {
				t.Errorf("%s: got %d, %q, %q, %q, %v", tt.prompt, res.status, text, finish, end, err)
			}
			if got := res.header.Get("Retry-After"); got != tt.header {
				t.Errorf("%s: Retry-After %q", tt.prompt, got)
			}
		}
	})
}

func TestFaultCountsAndRefusal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s stub, url string) {
		t.Helper()
		for i, want := range []int{500, 500, 200} {
			if got := send(t, url, "fault 500*2: hi", true).status; got != want {
				t.Errorf("request %d: %d", i, got)
			}
		}
		res, err := http.DefaultClient.Do(request(t.Context(), t, url, "fault refuse: hi", true))
		if !errors.Is(err, io.EOF) {
			if err == nil {
				_ = res.Body.Close()
			}
			t.Errorf("refused: %v", err)
		}
		if s.Count("fault 500*2: hi") != 3 {
			t.Errorf("count %d", s.Count("fault 500*2: hi"))
		}
	})
}

func TestKeyScriptAndResponder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s stub, url string) {
		t.Helper()
		s.Script(modelstub.Reply{Deltas: []string{"a", "b c", "d"}, ToolCalls: []modelstub.ToolCall{{ID: "1", Name: "pay", Arguments: `{"n":`}}})
		s.Respond(func(r modelstub.Request) (modelstub.Reply, bool) {
			return modelstub.Reply{Text: "for " + r.Model}, r.Prompt() == "asked"
		})
		for _, tt := range []struct{ prompt, text string }{{"asked", "for stub"}, {"hi", `ab cd{"n":`}, {"hi", "echo: hi"}} {
			if text, _, _, err := send(t, url, tt.prompt, true).streamed(); err != nil || text != tt.text {
				t.Errorf("got %q, %v", text, err)
			}
		}
		s.RequireKey("k")
		if got := send(t, url, "hi", true).status; got != http.StatusUnauthorized {
			t.Errorf("without the key: %d", got)
		}
	})
}

// TestWaiting checks that the stubs delay answers, and that a delay ends when the client
// disconnects.
func TestWaiting(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s stub, _ string) {
		t.Helper()
		for _, tt := range []struct {
			prompt         string
			patience, want time.Duration
		}{
			{"sleep 30s: hi", time.Hour, 30 * time.Second},
			{"sleep 10m: hi", 2 * time.Second, 2 * time.Second},
			{"fault hang: hi", 3 * time.Second, 3 * time.Second},
			{"fault stall: hi there", 4 * time.Second, 4 * time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				began := time.Now()
				s.ServeHTTP(httptest.NewRecorder(), request(ctx, t, s.path, tt.prompt, true))
				if took := time.Since(began); took != tt.want {
					t.Errorf("%s: the response took %v", tt.prompt, took)
				}
			})
		}
	})
}
