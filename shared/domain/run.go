package domain

import (
	"encoding/json"
	"fmt"
	"time"
)

// RunStatus is where a run stands.
type RunStatus string

// The states of a run; see the package's drawing.
const (
	RunQueued         RunStatus = "queued"
	RunRunning        RunStatus = "running"
	RunRequiresAction RunStatus = "requires_action"
	RunCompleted      RunStatus = "completed"
	RunFailed         RunStatus = "failed"
	RunCancelled      RunStatus = "cancelled"
	RunTimedOut       RunStatus = "timed_out"
)

// RunStatuses lists every state, for validation of filters.
var RunStatuses = []RunStatus{
	RunQueued, RunRunning, RunRequiresAction, RunCompleted, RunFailed, RunCancelled, RunTimedOut,
}

// Terminal reports whether a run in this state has ended for good.
func (s RunStatus) Terminal() bool {
	switch s {
	case RunCompleted, RunFailed, RunCancelled, RunTimedOut:
		return true
	default:
		return false
	}
}

// Run is one execution of an agent or template; its JSON form is the contract's run object.
type Run struct {
	ID           string     `json:"id"`
	Status       RunStatus  `json:"status"`
	AgentID      *string    `json:"agentId"`
	TemplateID   *string    `json:"templateId"`
	SessionID    string     `json:"sessionId"`
	Trigger      Trigger    `json:"trigger"`
	Message      *string    `json:"message"`
	Output       *Output    `json:"output"`
	Citations    []Citation `json:"citations"`
	ToolCalls    []ToolCall `json:"toolCalls"`
	Usage        Usage      `json:"usage"`
	Error        *RunError  `json:"error"`
	OmittedTurns int        `json:"omittedTurns,omitempty"` // older turns of the session that did not fit the model
	// RequiredAction is set while the run is in requires_action.
	RequiredAction *RequiredAction `json:"requiredAction,omitempty"`
	// CitationsRemoved counts the citations that the model wrote and that did not hold.
	CitationsRemoved int     `json:"citationsRemoved,omitempty"`
	Attempts         int     `json:"attempts"`
	IdempotencyKey   *string `json:"idempotencyKey"`
	CreatedAt        Time    `json:"createdAt"`
	StartedAt        *Time   `json:"startedAt"`
	FinishedAt       *Time   `json:"finishedAt"`
	ExpiresAt        *Time   `json:"expiresAt"`
}

// Trigger says what started a run: a chat, or an automation with its caller-chosen name.
type Trigger struct {
	Type         string  `json:"type"`
	AutomationID *string `json:"automationId"`
}

// TriggerChat is the trigger type of chat runs.
const TriggerChat = "chat"

// Output is the agent's answer.
type Output struct {
	Message string `json:"message"`
}

// Citation ties the words of the answer from startIndex up to endIndex, in Unicode code points, to the words that
// support them. In a tool's result it is a source, and citedText all of it that the model was given.
type Citation struct {
	ID         int     `json:"id"`
	Type       string  `json:"type"`
	Title      string  `json:"title"`
	URL        string  `json:"url"`
	CitedText  string  `json:"citedText"`
	StartIndex int     `json:"startIndex"`
	EndIndex   int     `json:"endIndex"`
	DocumentID *string `json:"documentId"`
	Page       *int    `json:"page"`
	SourceID   *string `json:"sourceId"` // of the text as it was read, for GET /api/sources
}

// ToolCall is one use of a tool in a run.
type ToolCall struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	DurationMS int64           `json:"durationMs"`
}

// Usage counts what a run consumed: tokens, and cost in millionths of the price table's currency.
type Usage struct {
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	CostMicros   int64  `json:"costMicros"`
	Model        string `json:"model"`
}

// RunError says why a run failed, in words made for the caller.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Input is what a run was asked: the message, and further keys passed to the agent as data. A request that brings its
// conversation along has what came before the message as history, and may instruct the agent further.
type Input struct {
	Message      string          `json:"message"`
	Data         json.RawMessage `json:"data,omitempty"`
	History      []Exchange      `json:"history,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
}

// Exchange is one message of a conversation and its answer.
type Exchange struct {
	Message string `json:"message"`
	Answer  string `json:"answer"`
}

// Render gives the run object's bytes. A terminal run is rendered once and kept, so that every replay has the same bytes.
func (r *Run) Render() ([]byte, error) {
	shown := *r // lists that are nil stay so in r
	if shown.Citations == nil {
		shown.Citations = []Citation{}
	}
	if shown.ToolCalls == nil {
		shown.ToolCalls = []ToolCall{}
	}
	b, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("rendering run: %w", err)
	}
	return b, nil
}

// End makes the run terminal as of finished; it expires a retention later, never when that is zero.
func (r *Run) End(status RunStatus, cause *RunError, finished Time, retentionSeconds int64) {
	r.Status, r.Error, r.FinishedAt = status, cause, &finished
	if retentionSeconds > 0 {
		r.ExpiresAt = AtPtr(finished.Add(time.Duration(retentionSeconds) * time.Second))
	}
}
