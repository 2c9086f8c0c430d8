package anthropic_test

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
	"parley/workers/internal/llm/anthropic"
)

// replay serves one file as the answer to every request.
func replay(t *testing.T, name string, header http.Header) llm.Model {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	status, media := http.StatusOK, "text/event-stream; charset=utf-8"
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
	p, err := anthropic.New(anthropic.Config{APIKey: "sk-leak", BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	m, err := p.Model("claude-sonnet-5-5")
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
	if r.Thinking != nil {
		fmt.Fprintf(&b, " | thinking %s", r.Thinking)
	}
	return b.String()
}

func TestReplayedAnswers(t *testing.T) {
	t.Parallel()
	thoughts := `{"model":"anthropic/claude-sonnet-5-5","blocks":[{"thinking":"The user wants the height.","signature":"EqoBCkgIARAB"},` +
		`{"redacted":"EmwKAhgB"}]}`
	tests := map[string]string{
		"text":                `"Grüße aus 東京 🗼." end 12/9`,
		"tool":                `"Let me look." tool_calls 12/33 | toolu_01A webSearch {"query":"tower height"}`,
		"tools_parallel":      `"" tool_calls 12/40 | toolu_01A webSearch {"query":"a"} | toolu_01B codeExecution {"code":"print(\"ü\")"}`,
		"tools_interleaved":   `"" tool_calls 12/9 | toolu_01A webSearch {"query":"a"} | toolu_01B webSearch {"query":"b"}`,
		"tool_no_arguments":   `"" tool_calls 12/9 | toolu_01A now {}`,
		"tool_whole_input":    `"" tool_calls 12/9 | toolu_01A now {"zone":"UTC"}`,
		"bad_arguments":       `"" tool_calls 12/9 | toolu_01A webSearch malformed {"query": "unclosed`,
		"bad_arguments_array": `"" tool_calls 12/9 | toolu_01A webSearch malformed ["x"]`,
		"cache_usage":         `"Fine." end 2105/3`,
		"no_usage":            `"Hello there" end 6/4 estimated`,
		"negative_usage":      `"x" end 0/0`,
		"length":              `"Once upon" length 12/2`,
		"stop_sequence":       `"Once" end 12/9`,
		"window_filled":       `"Once" length 12/9`,
		"no_message_stop":     `"Fine" end 12/9`,
		"empty":               `"" end 12/0`,
		"control_characters":  `"ab" end 12/9`,
		"thinking":            `"" tool_calls 12/60 | toolu_01A webSearch {"query":"height"} | thinking ` + thoughts,
		"server_tool":         `"Found." end 12/9`,
		"unknown_event":       `"yes" end 12/9`,
		"crlf":                `"One\r\ntwo" end 12/9`,
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
			if deltas != res.Text || res.Model != "anthropic/claude-sonnet-5-5" {
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
		"refusal.sse":                      {llm.KindFiltered, false},
		"pause_turn.sse":                   {llm.KindTruncated, true},
		"length_in_call.sse":               {llm.KindTruncated, false},
		"window_in_call.sse":               {llm.KindTruncated, false},
		"window_empty.sse":                 {llm.KindContextLength, false},
		"unknown_stop_in_call.sse":         {llm.KindBadResponse, true},
		"unended_call.sse":                 {llm.KindTruncated, true},
		"cut_text.sse":                     {llm.KindTruncated, true},
		"cut_text_stopped.sse":             {llm.KindTruncated, true},
		"cut_call.sse":                     {llm.KindTruncated, true},
		"cut_call_valid_json.sse":          {llm.KindTruncated, true},
		"cut_before_blank.sse":             {llm.KindTruncated, true},
		"stop_without_reason.sse":          {llm.KindTruncated, true},
		"bad_event.sse":                    {llm.KindBadResponse, true},
		"stray_delta.sse":                  {llm.KindBadResponse, true},
		"block_twice.sse":                  {llm.KindBadResponse, true},
		"no_name.sse":                      {llm.KindBadResponse, true},
		"event_overloaded.sse":             {llm.KindUnavailable, true},
		"event_overloaded_first.sse":       {llm.KindUnavailable, true},
		"event_rate_limit.sse":             {llm.KindRateLimited, true},
		"event_api_error.sse":              {llm.KindUnavailable, true},
		"event_invalid.sse":                {llm.KindInvalid, false},
		"event_timeout.sse":                {llm.KindTimeout, true},
		"event_no_json.sse":                {llm.KindUnavailable, true},
		"error_400_prompt.json":            {llm.KindContextLength, false},
		"error_400_prompt_and_answer.json": {llm.KindContextLength, false},
		"error_400_credit.json":            {llm.KindQuota, false},
		"error_400_limits.json":            {llm.KindQuota, false},
		"error_400_filter.json":            {llm.KindFiltered, false},
		"error_400_schema.json":            {llm.KindInvalid, false},
		"error_401_key.json":               {llm.KindAuth, false},
		"error_402_billing.json":           {llm.KindQuota, false},
		"error_403_permission.json":        {llm.KindAuth, false},
		"error_404_model.json":             {llm.KindUnknownModel, false},
		"error_413_large.html":             {llm.KindContextLength, false},
		"error_429_rate.json":              {llm.KindRateLimited, true},
		"error_500.json":                   {llm.KindUnavailable, true},
		"error_502.html":                   {llm.KindUnavailable, true},
		"error_504_timeout.json":           {llm.KindTimeout, true},
		"error_529_overloaded.json":        {llm.KindUnavailable, true},
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
	for _, file := range []string{"error_429_rate.json", "error_529_overloaded.json"} {
		_, err := replay(t, file, http.Header{"Retry-After": {"7"}}).Stream(t.Context(), question(), func(llm.Delta) {})
		var e *llm.Error
		if !errors.As(err, &e) || e.RetryAfter != 7*time.Second {
			t.Errorf("%s: got %v", file, err)
		}
	}
}
