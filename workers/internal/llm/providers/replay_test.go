package providers_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// replay returns a model whose server responds to every request with the same recording.
func (p *protocol) replay(t *testing.T, name string, header http.Header) llm.Model {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", p.name, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	status, media := http.StatusOK, "text/event-stream; charset=utf-8"
	if n, err := fmt.Sscanf(name, "error_%d", &status); err == nil && n == 1 {
		media = map[string]string{".json": "application/json", ".html": "text/html"}[filepath.Ext(name)]
	}
	return p.against(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
}

func question() llm.Request {
	return llm.Request{System: "S", Messages: []llm.Message{{Role: llm.RoleUser, Text: "How high is it?"}}}
}

// summary formats an answer as a single line.
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
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for name, want := range p.answers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				deltas := ""
				res, err := p.replay(t, name+".sse", nil).Stream(t.Context(), question(), func(d llm.Delta) {
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
				if deltas != res.Text || res.Model != p.name+"/"+p.model {
					t.Errorf("deltas %q, model %s", deltas, res.Model)
				}
			})
		}
	})
}

func TestReplayedFailures(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for name, want := range p.failures {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				res, err := p.replay(t, name, nil).Stream(t.Context(), question(), ignore)
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != want.kind || e.Retryable != want.retryable {
					t.Errorf("got %#v (%v)", e, err)
				}
				if res.Text != "" || len(res.ToolCalls) > 0 {
					t.Errorf("a failed call = %+v", res)
				}
				checkProvider(t, name, e.Provider)
				for cause := err; cause != nil; cause = errors.Unwrap(cause) {
					if strings.Contains(cause.Error(), "leak") {
						t.Errorf("contains a secret: %v", cause)
					}
				}
			})
		}
	})
}

// checkProvider checks the part of a recorded response that admins can read. This part must contain
// the status and no secret.
func checkProvider(t *testing.T, recording string, got *domain.ProviderError) {
	t.Helper()
	status := 0
	if n, err := fmt.Sscanf(recording, "error_%d", &status); err == nil && n == 1 && (got == nil || got.Status != status) {
		t.Errorf("the provider's response is %+v", got)
	}
	if got != nil && (strings.Contains(got.Message, "leak") || len(got.Message) > domain.MaxProviderMessage) {
		t.Errorf("the provider's message is %q", got.Message)
	}
}

// TestProvidersExplainThemselves checks, for some recorded responses, the status and the message
// that admins can read.
func TestProvidersExplainThemselves(t *testing.T) {
	t.Parallel()
	for _, p := range protocols() {
		for recording, want := range map[string]map[string]domain.ProviderError{
			"openai": {
				"error_401_key.json": {Status: 401},
				"cut_text.sse":       {Status: 200, Message: "The stream ended before the answer was complete."},
			},
			"anthropic": {
				"error_401_key.json": {Status: 401},
				"cut_text.sse":       {Status: 200, Message: "The stream ended before the answer was complete."},
			},
		}[p.name] {
			_, err := p.replay(t, recording, nil).Stream(t.Context(), question(), ignore)
			var e *llm.Error
			if !errors.As(err, &e) || e.Provider == nil || *e.Provider != want {
				t.Errorf("%s %s: %v, %+v", p.name, recording, err, e.Provider)
			}
		}
	}
}

// TestEveryRecordingIsReplayed fails if there is a recording that no test uses.
func TestEveryRecordingIsReplayed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join("..", p.name, "testdata", "[a-z]*.*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, f := range files {
			name := filepath.Base(f)
			_, answers := p.answers[strings.TrimSuffix(name, ".sse")]
			if _, fails := p.failures[name]; !answers && !fails {
				t.Errorf("%s is replayed by no test", f)
			}
		}
	})
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
	each(t, func(t *testing.T, p *protocol) {
		t.Helper()
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, recording := range p.limited {
					_, err := p.replay(t, recording, tt.header).Stream(t.Context(), question(), ignore)
					var e *llm.Error
					if !errors.As(err, &e) || e.RetryAfter < tt.min || e.RetryAfter > tt.max {
						t.Errorf("%s: got %v", recording, e)
					}
				}
			})
		}
	})
}
