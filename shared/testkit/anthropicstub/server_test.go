package anthropicstub_test

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

	"parley/shared/testkit/anthropicstub"
)

func start(t *testing.T) (*anthropicstub.Server, string) {
	t.Helper()
	stub := anthropicstub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return stub, server.URL + "/v1/messages"
}

func post(ctx context.Context, t *testing.T, url, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	return http.DefaultClient.Do(req)
}

func request(t *testing.T, prompt string, stream bool) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "stub", "max_tokens": 100, "stream": stream, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type event struct {
	Type  string `json:"type"`
	Delta struct {
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
}

// streamed reads a streamed answer. It returns the joined text, the stop reason and the type of the
// last event.
func streamed(t *testing.T, body io.Reader) (text, stop, last string, err error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return text, stop, last, err
		}
		text += e.Delta.Text + e.Delta.PartialJSON
		stop += e.Delta.StopReason
		last = e.Type
	}
	return text, stop, last, lines.Err()
}

func TestEcho(t *testing.T) {
	t.Parallel()
	stub, url := start(t)
	res, err := post(t.Context(), t, url, request(t, "good  morning ", true))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, stop, last, err := streamed(t, res.Body)
	if err != nil || text != "echo: good  morning " || stop != "end_turn" || last != "message_stop" {
		t.Errorf("got %q, %q, %q, %v", text, stop, last, err)
	}
	whole, err := post(t.Context(), t, url, request(t, "good  morning ", false))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Body.Close()
	var answer struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Usage map[string]int `json:"usage"`
	}
	if err := json.NewDecoder(whole.Body).Decode(&answer); err != nil || answer.Content[0].Text != text || answer.Usage["output_tokens"] != 3 {
		t.Errorf("got %+v, %v", answer, err)
	}
	if stub.Count("good  morning ") != 2 || stub.Total() != 2 || stub.Active() != 0 {
		t.Errorf("counts: %d, %d, %d", stub.Count("good  morning "), stub.Total(), stub.Active())
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	_, url := start(t)
	tests := []struct {
		prompt, text, stop, last string
		status                   int
		failed                   bool
		header                   string
	}{
		{prompt: "fault 429=7: hi", status: 429, header: "7"},
		{prompt: "fault 529: hi", status: 529, header: "1"},
		{prompt: "fault 500: hi", status: 500},
		{prompt: "fault context: hi", status: 400},
		{prompt: "fault quota: hi", status: 402},
		{prompt: "fault html: hi", status: 200},
		{prompt: "fault cut: a b c", status: 200, text: "echo: a", last: "content_block_delta", failed: true},
		{prompt: "fault eof: a b c", status: 200, text: "echo: a", last: "content_block_delta"},
		{prompt: "fault badjson: a b c", status: 200, text: "echo: a", last: "content_block_delta", failed: true},
		{prompt: "fault event: a b c", status: 200, text: "echo: a", last: "error"},
		{prompt: "fault badargs=fetch: a", status: 200, text: `{"query": "unclosed`, stop: "tool_use", last: "message_stop"},
		{prompt: "fault cutcall: a", status: 200, text: `{"query":`, last: "content_block_delta", failed: true},
		{prompt: "fault length: a b c", status: 200, text: "echo: a", stop: "max_tokens", last: "message_stop"},
		{prompt: "fault nousage: a", status: 200, text: "echo: a", stop: "end_turn", last: "message_stop"},
		{prompt: "tool fetch: ü and more", status: 200, text: `{"query":"ü and more"}`, stop: "tool_use", last: "message_stop"},
	}
	for _, tt := range tests {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			res, err := post(t.Context(), t, url, request(t, tt.prompt, true))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, stop, last, err := streamed(t, res.Body)
			if res.StatusCode != tt.status || text != tt.text || stop != tt.stop || last != tt.last || (err != nil) != tt.failed {
				t.Errorf("got %d, %q, %q, %q, %v", res.StatusCode, text, stop, last, err)
			}
			if got := res.Header.Get("Retry-After"); got != tt.header {
				t.Errorf("Retry-After %q", got)
			}
		})
	}
	if res, err := post(t.Context(), t, url, request(t, "fault refuse: hi", true)); !errors.Is(err, io.EOF) {
		if err == nil {
			_ = res.Body.Close()
		}
		t.Errorf("refused: %v", err)
	}
}

// TestWhatTheAPIRefuses checks that the stub rejects requests that violate the protocol.
func TestWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	_, url := start(t)
	const use = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}`
	const result = `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]}`
	tests := map[string]int{
		`{"role":"user","content":"q"}`: 200,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[` + result + `]}`:                               200,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[` + result + `,{"type":"text","text":"and?"}]}`: 200,
		``:                                   400,
		`{"role":"assistant","content":"a"}`: 400,
		`{"role":"user","content":"q"},{"role":"user","content":"q"}`:                                                                400,
		`{"role":"user","content":"q"},{"role":"assistant","content":"a"}`:                                                           400,
		`{"role":"user","content":" "}`:                                                                                              400,
		`{"role":"user","content":[]}`:                                                                                               400,
		`{"role":"user","content":[{"type":"hologram"}]}`:                                                                            400,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":"no result"}`:                                            400,
		`{"role":"user","content":[` + result + `]}`:                                                                                 400,
		`{"role":"user","content":"q"},` + use + `,{"role":"user","content":[{"type":"text","text":"first"},` + result + `]}`:        400,
		`{"role":"user","content":"q"},` + strings.Replace(use, `{}`, `"x"`, 1) + `,{"role":"user","content":[` + result + `]}`:      400,
		`{"role":"user","content":"q"},` + strings.Replace(use, `"id":"a"`, `"id":"a:b"`, 1) + `,{"role":"user","content":"result"}`: 400,
	}
	for messages, want := range tests {
		res, err := post(t.Context(), t, url, `{"model":"m","max_tokens":5,"messages":[`+messages+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: %d", messages, res.StatusCode)
		}
	}
	for _, body := range []string{`{`, `{"messages":[{"role":"user","content":"q"}]}`, `{"max_tokens":5,"tools":[{"name":"a b"}],"messages":[]}`} {
		res, err := post(t.Context(), t, url, body)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", body, res.StatusCode)
		}
	}
}

func TestKeyScriptAndResponder(t *testing.T) {
	t.Parallel()
	stub, url := start(t)
	stub.Script(anthropicstub.Reply{Deltas: []string{"a", "b c", "d"}, ToolCalls: []anthropicstub.ToolCall{{ID: "1", Name: "x", Arguments: `{"n":`}}})
	stub.Respond(func(r anthropicstub.Request) (anthropicstub.Reply, bool) {
		return anthropicstub.Reply{Text: "for " + r.Model + " " + r.System}, r.Prompt() == "asked"
	})
	for _, tt := range []struct{ prompt, text string }{{"asked", "for stub "}, {"hi", `ab cd{"n":`}, {"hi", "echo: hi"}} {
		res, err := post(t.Context(), t, url, request(t, tt.prompt, true))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _, err := streamed(t, res.Body)
		if _ = res.Body.Close(); err != nil || text != tt.text {
			t.Errorf("got %q, %v", text, err)
		}
	}
	stub.RequireKey("k")
	refused, err := post(t.Context(), t, url, request(t, "hi", true))
	if err != nil {
		t.Fatal(err)
	}
	if _ = refused.Body.Close(); refused.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the key: %d", refused.StatusCode)
	}
}

// TestWaiting checks that the stub delays answers, and that a delay ends when the client
// disconnects.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt         string
		patience, want time.Duration
	}{
		{"sleep 30s: hi", time.Hour, 30 * time.Second},
		{"fault hang: hi", 3 * time.Second, 3 * time.Second},
		{"fault stall: hi there", 4 * time.Second, 4 * time.Second},
	} {
		t.Run(tt.prompt, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", strings.NewReader(request(t, tt.prompt, true)))
				req.Header.Set("Anthropic-Version", "2023-06-01")
				began := time.Now()
				anthropicstub.New().ServeHTTP(httptest.NewRecorder(), req)
				if took := time.Since(began); took != tt.want {
					t.Errorf("the response took %v", took)
				}
			})
		})
	}
}
