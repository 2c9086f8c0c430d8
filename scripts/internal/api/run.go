package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Run contains the fields of the run object that tests use.
type Run struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	SessionID string `json:"sessionId"`
	Message   string `json:"message"`
	Attempts  int    `json:"attempts"`
	Output    *struct {
		Message string `json:"message"`
	} `json:"output"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	RequiredAction *struct {
		ToolCall

		Kind      string          `json:"kind"`
		Input     json.RawMessage `json:"input"`
		ExpiresAt time.Time       `json:"expiresAt"`
		Calls     []ToolCall      `json:"calls"`
	} `json:"requiredAction"`
	ToolCalls        []ToolCall `json:"toolCalls"`
	Citations        Citations  `json:"citations"`
	CitationsRemoved int        `json:"citationsRemoved"`
	Usage            Usage      `json:"usage"`
}

// ToolCall is a call of a tool in a run.
type ToolCall struct {
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
	Status     string `json:"status"`
}

// Citations contains the citations of a run. It is empty if the run was read from a list, because
// lists contain only the number of citations.
type Citations []Citation

// UnmarshalJSON reads citations or their number.
func (c *Citations) UnmarshalJSON(raw []byte) error {
	var number int
	if json.Unmarshal(raw, &number) == nil {
		*c = nil
		return nil
	}
	if err := json.Unmarshal(raw, (*[]Citation)(c)); err != nil {
		return fmt.Errorf("reading citations: %w", err)
	}
	return nil
}

// Citation is a citation of a run.
type Citation struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	URL        string `json:"url"`
	Path       string `json:"path"`
	Page       int    `json:"page"`
	CitedText  string `json:"citedText"`
	StartIndex int    `json:"startIndex"`
	EndIndex   int    `json:"endIndex"`
	SourceID   string `json:"sourceId"`
	DocumentID string `json:"documentId"`
}

// Usage is the use of a run.
type Usage struct {
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	CostMicros   int64  `json:"costMicros"`
	Model        string `json:"model"`
}

// Tokens returns the number of tokens that the run has used.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Terminal reports whether a run with this status has finished.
func Terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled" || status == "timed_out"
}

// Run decodes a response that must be a run.
func (a Answer) Run(tb testing.TB) (r Run) {
	tb.Helper()
	a.Into(tb, &r)
	if r.ID == "" {
		tb.Fatalf("response %d is not a run: %s", a.Status, a.Body)
	}
	return r
}

// Completed fails the test unless the response is a completed run with the given output and number
// of attempts.
func (a Answer) Completed(tb testing.TB, output string, attempts int) Run {
	tb.Helper()
	r := a.Want(tb, http.StatusOK).Run(tb)
	if r.Status != "completed" || r.Output == nil || r.Output.Message != output || r.Attempts != attempts {
		tb.Fatalf("want a completed run with output %q and %d attempts: %s", output, attempts, a.Body)
	}
	return r
}
