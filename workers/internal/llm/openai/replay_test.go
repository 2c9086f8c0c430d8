package openai_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/llm"
	"parley/workers/internal/llm/openai"
)

// replay serves one file as the answer to every request.
func replay(t *testing.T, name string, header http.Header) llm.Model {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	status, media := http.StatusOK, "text/event-stream"
	if n, err := fmt.Sscanf(name, "error_%d", &status); err == nil && n == 1 {
		media = map[string]string{".json": "application/json", ".html": "text/html"}[filepath.Ext(name)]
	}
	return against(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
}

// against gives a model of the server that a handler makes.
func against(t *testing.T, h http.Handler) llm.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	p, err := openai.New(openai.Config{APIKey: "sk-leak", BaseURL: server.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	m, err := p.Model("gpt-5-mini")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func question() llm.Request {
	return llm.Request{System: "S", Messages: []llm.Message{{Role: llm.RoleUser, Text: "How high is it?"}}}
}

// summary writes an answer on one line.
func summary(r llm.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s %d/%d", r.Text, r.StopReason, r.Usage.InputTokens, r.Usage.OutputTokens)
	if r.Usage.Estimated {
		b.WriteString(" estimated")
	}
	for _, c := range r.ToolCalls {
		fmt.Fprintf(&b, " | %s %s %s", c.ID, c.Name, c.Arguments)
		if c.Malformed != "" {
			fmt.Fprintf(&b, "malformed %s", c.Malformed)
		}
	}
	return b.String()
}

func TestReplayedAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"openai_text":            `"Grüße aus 東京 🗼." end 12/9`,
		"openai_refusal":         `"I can't help with that." end 5/6`,
		"openai_tools":           `"" tool_calls 80/33 | call_A webSearch {"query":"tower height"} | call_B codeExecution {"code":"print(\"ü\")"}`,
		"openai_text_and_tools":  `"Let me look." tool_calls 8/3 | call_A webSearch {"query":"x"}`,
		"openai_length":          `"Once upon" length 5/2`,
		"bad_arguments":          `"" tool_calls 5/2 | call_A webSearch malformed {"query": "unclosed`,
		"bad_arguments_array":    `"" tool_calls 5/2 | call_A webSearch malformed ["x"]`,
		"no_arguments":           `"" tool_calls 5/2 | call_A now {}`,
		"no_done":                `"Fine" end 6/2 estimated`,
		"vllm_text_no_usage":     `"Hello there" end 6/4 estimated`,
		"vllm_reasoning":         `"\n\nHello" end 9/12`,
		"ollama_tools_one_index": `"" tool_calls 165/20 | call_x1 webSearch {"query":"a"} | call_x2 webSearch {"query":"b"}`,
		"repeated_name_no_id":    `"" tool_calls 6/6 estimated |  now {"zone":"UTC"}`,
		"crlf":                   `"One\r\ntwo" end 3/3`,
		"gateway_keepalive":      `"Fine." end 4/2`,
		"usage_every_chunk":      `"ab" end 7/2`,
		"other_choices":          `"yes" end 6/1 estimated`,
		"changing_ids":           `"one two" end 6/3 estimated`,
		"control_characters":     `"ab" end 6/1 estimated`,
		"negative_usage":         `"x" end 0/0`,
		"empty_answer":           `"" end 5/0`,
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := replay(t, name+".sse", nil)
			deltas := ""
			res, err := m.Stream(t.Context(), question(), func(d llm.Delta) {
				if d.Text == "" {
					t.Error("an empty delta")
				}
				deltas += d.Text
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(res); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if deltas != res.Text || res.Model != "openai/gpt-5-mini" {
				t.Errorf("deltas %q, model %s", deltas, res.Model)
			}
		})
	}
}

func TestReplayedFailures(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind      llm.Kind
		retryable bool
	}{
		"openai_content_filter.sse":       {llm.KindFiltered, false},
		"openai_length_in_call.sse":       {llm.KindTruncated, false},
		"openai_error_event.sse":          {llm.KindUnavailable, true},
		"openai_rate_limit_event.sse":     {llm.KindRateLimited, true},
		"gateway_error_event.sse":         {llm.KindUnavailable, true},
		"cut_text.sse":                    {llm.KindTruncated, true},
		"cut_text_done.sse":               {llm.KindTruncated, true},
		"cut_call.sse":                    {llm.KindTruncated, true},
		"cut_call_valid_json.sse":         {llm.KindTruncated, true},
		"cut_before_blank.sse":            {llm.KindTruncated, true},
		"bad_chunk.sse":                   {llm.KindBadResponse, true},
		"no_name.sse":                     {llm.KindBadResponse, true},
		"error_400_context.json":          {llm.KindContextLength, false},
		"error_400_context_vllm.json":     {llm.KindContextLength, false},
		"error_400_context_llamacpp.json": {llm.KindContextLength, false},
		"error_400_schema.json":           {llm.KindInvalid, false},
		"error_401_key.json":              {llm.KindAuth, false},
		"error_403_region.json":           {llm.KindAuth, false},
		"error_404_model.json":            {llm.KindUnknownModel, false},
		"error_429_rate.json":             {llm.KindRateLimited, true},
		"error_429_quota.json":            {llm.KindQuota, false},
		"error_500.json":                  {llm.KindUnavailable, true},
		"error_502.html":                  {llm.KindUnavailable, true},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := replay(t, name, nil).Stream(t.Context(), question(), func(llm.Delta) {})
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != want.kind || e.Retryable != want.retryable {
				t.Errorf("got %#v (%v)", e, err)
			}
			if res.Text != "" || len(res.ToolCalls) > 0 {
				t.Errorf("a failed call gave %+v", res)
			}
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				if strings.Contains(cause.Error(), "leak") {
					t.Errorf("shows what it must not: %v", cause)
				}
			}
		})
	}
}

// TestEveryRecordingIsReplayed keeps files from lying about unused.
func TestEveryRecordingIsReplayed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("replay_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".sse")
		if name != "README.md" && name != ".gitattributes" && !strings.Contains(string(tests), `"`+name) {
			t.Errorf("%s is replayed by no test", f)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header   http.Header
		min, max time.Duration
	}{
		"none":         {http.Header{}, 0, 0},
		"seconds":      {http.Header{"Retry-After": {"7"}}, 7 * time.Second, 7 * time.Second},
		"fraction":     {http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond, 500 * time.Millisecond},
		"milliseconds": {http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"250"}}, 250 * time.Millisecond, 250 * time.Millisecond},
		"date":         {http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}, 55 * time.Minute, time.Hour},
		"past":         {http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:05 GMT"}}, 0, 0},
		"negative":     {http.Header{"Retry-After": {"-3"}}, 0, 0},
		"absurd":       {http.Header{"Retry-After": {"1e300"}}, 24 * time.Hour, 24 * time.Hour},
		"no number":    {http.Header{"Retry-After": {"NaN"}}, 0, 0},
		"words":        {http.Header{"Retry-After": {"soon"}}, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := replay(t, "error_429_rate.json", tt.header).Stream(t.Context(), question(), func(llm.Delta) {})
			var e *llm.Error
			if !errors.As(err, &e) || e.RetryAfter < tt.min || e.RetryAfter > tt.max {
				t.Errorf("got %v", e)
			}
		})
	}
}
