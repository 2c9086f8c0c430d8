package domain

import (
	"encoding/json"
	"fmt"
	"time"
)

// RunStatus is the state of a run.
type RunStatus string

// The states of a run; see the diagram in the package comment.
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

// Terminal reports whether a run in this state has finished. A terminal state never changes.
func (s RunStatus) Terminal() bool {
	switch s {
	case RunCompleted, RunFailed, RunCancelled, RunTimedOut:
		return true
	default:
		return false
	}
}

// Run is one execution of an agent or template. Its JSON form is the run object in the HTTP API.
type Run struct {
	ID         string    `json:"id"`
	Status     RunStatus `json:"status"`
	AgentID    *string   `json:"agentId"`
	TemplateID *string   `json:"templateId"`
	SessionID  string    `json:"sessionId"`
	// PreviousRunID is the run that this run continues: the run in its request, or the preceding
	// run of the session. It is nil for a run that continues no other run.
	PreviousRunID *string    `json:"previousRunId"`
	Trigger       Trigger    `json:"trigger"`
	Message       *string    `json:"message"`
	Output        *Output    `json:"output"`
	Citations     []Citation `json:"citations"`
	ToolCalls     []ToolCall `json:"toolCalls"`
	Usage         Usage      `json:"usage"`
	Error         *RunError  `json:"error"`
	OmittedTurns  int        `json:"omittedTurns,omitempty"` // older turns of the session that did not fit into the model's context
	// RequiredAction is set while the run is in requires_action.
	RequiredAction *RequiredAction `json:"requiredAction,omitempty"`
	// CitationsRemoved is the number of the model's citations that were removed because they were
	// invalid.
	CitationsRemoved int `json:"citationsRemoved,omitempty"`
	// Warnings are connections of the agent that did not work, although the run continued.
	Warnings []RunWarning `json:"warnings,omitempty"`
	// AppendSources is the agent's setting at the time of acceptance.
	AppendSources bool `json:"appendSources,omitempty"`
	// Settings are the model settings of the run: the agent's settings, overridden by the
	// request's. Settings is nil if no setting has a value or the run has not finished.
	Settings *ModelSettings `json:"settings,omitempty"`
	// Attachments are the images and documents that were sent with the request.
	Attachments []Attachment `json:"attachments,omitempty"`
	// FinishReason is nil until the run has finished.
	FinishReason *FinishReason `json:"finishReason"`
	// AgentVersion is the agent's version at the run's acceptance. It is nil for a template.
	AgentVersion   *int    `json:"agentVersion"`
	Attempts       int     `json:"attempts"`
	IdempotencyKey *string `json:"idempotencyKey"`
	CreatedAt      Time    `json:"createdAt"`
	StartedAt      *Time   `json:"startedAt"`
	FinishedAt     *Time   `json:"finishedAt"`
	ExpiresAt      *Time   `json:"expiresAt"`
}

// FinishReason is the reason why a run's answer ended.
type FinishReason string

// The finish reasons. A completed run has one of the first four.
const (
	FinishStop          FinishReason = "stop"           // the answer is complete
	FinishLength        FinishReason = "length"         // the model reached its output limit
	FinishContentFilter FinishReason = "content_filter" // the provider withheld the rest of the answer
	FinishToolCalls     FinishReason = "tool_calls"     // the client must make calls of its own tools
	FinishCancelled     FinishReason = "cancelled"
	FinishError         FinishReason = "error" // the run failed or timed out
)

// EndReason returns the finish reason that follows from a run's status. EndReason must not be
// called for a run with an incomplete answer. It returns nil if the run has not finished.
func (s RunStatus) EndReason() *FinishReason {
	switch s {
	case RunCompleted:
		return new(FinishStop)
	case RunCancelled:
		return new(FinishCancelled)
	case RunFailed, RunTimedOut:
		return new(FinishError)
	default:
		return nil
	}
}

// Incomplete reports whether the run has an answer that ended early: at the model's output limit
// or by the provider's filter.
func (r *Run) Incomplete() bool {
	return r.Status == RunCompleted && r.FinishReason != nil && (*r.FinishReason == FinishLength || *r.FinishReason == FinishContentFilter)
}

// ClientCalls returns the calls that the run's client must make, in order. They are the calls
// without a result.
func (r *Run) ClientCalls() (calls []ToolCall) {
	if r.Status != RunCompleted || r.FinishReason == nil || *r.FinishReason != FinishToolCalls {
		return nil
	}
	for _, call := range r.ToolCalls {
		if call.Status == CallPending {
			calls = append(calls, call)
		}
	}
	return calls
}

// Trigger is the cause of a run: a chat, or an automation with a name chosen by the caller.
type Trigger struct {
	Type         string  `json:"type"`
	AutomationID *string `json:"automationId"`
}

// TriggerChat is the trigger type of chat runs.
const TriggerChat = "chat"

// Output is the agent's answer.
type Output struct {
	Message string `json:"message"`
	// Message is the text of the answer. Data is the answer as JSON if the answer had to match a
	// schema.
	Data json.RawMessage `json:"data,omitempty"`
}

// JSON returns the answer as JSON, or nil if the answer did not have to match a schema. A run
// without an answer has no JSON either.
func (o *Output) JSON() json.RawMessage {
	if o == nil {
		return nil
	}
	return o.Data
}

// Citation links the words of the answer from StartIndex up to EndIndex, in Unicode code points, to
// the words that support them. In a tool's result, a citation describes a source, and CitedText is
// the whole text given to the model.
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
	SourceID   *string `json:"sourceId"` // id of the stored text, for GET /api/sources
	// Path is the JSON Pointer to the cited value in the output's data; empty for a text.
	Path string `json:"path,omitempty"`
}

// CallPending is the status of a call that the run's client must make.
const CallPending = "pending"

// ToolCall is one use of a tool in a run.
type ToolCall struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output"`
	DurationMS int64           `json:"durationMs"`
	// Client means that the tool belongs to the client, which makes the call itself.
	Client bool `json:"client,omitempty"`
}

// Usage is the consumption of a run: tokens, and cost in millionths of the service's currency.
type Usage struct {
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	CostMicros   int64  `json:"costMicros"`
	Model        string `json:"model"`
}

// RunWarning names a connection of the agent that did not work during a run.
type RunWarning struct {
	Kind    CheckKind `json:"kind"`
	Name    string    `json:"name"`
	Message string    `json:"message"`
}

// RunError is the reason why a run failed, in words for the caller.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Errors are the mismatches of an answer, for the code output_invalid.
	Errors []OutputMismatch `json:"errors,omitempty"`
	// Provider is set only in responses to admins. Stored runs and events lack it.
	Provider *ProviderError `json:"provider,omitempty"`
}

// ProviderError is the response with which a model provider refused a call: its HTTP status, and
// its message, redacted and truncated to MaxProviderMessage characters.
type ProviderError struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

// MaxProviderMessage is the maximum number of characters of ProviderError.Message.
const MaxProviderMessage = 1_000

// Input is the input of a run: the message, and further keys that are passed to the agent as data.
// If the request contained the whole conversation, History has the earlier messages, and
// Instructions may have further instructions. Echo has the fields of the request that its protocol
// repeats in later responses.
type Input struct {
	Message      string          `json:"message"`
	Data         json.RawMessage `json:"data,omitempty"`
	History      []Exchange      `json:"history,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	Echo         json.RawMessage `json:"echo,omitempty"`
	RunOptions
}

// UnstoredInput is the beginning of the JSON of an input with the flag "unstored". The run of such
// an input cannot be read later as a response of OpenAI's protocol. The flag comes first in the
// JSON, so that it can be read without the rest of a large input.
const UnstoredInput = `{"unstored":true,`

// Exchange is one message in a conversation, the calls of the client's tools that it caused, and
// the answer to it; see Open.
type Exchange struct {
	Message string      `json:"message"`
	Rounds  []CallRound `json:"rounds,omitempty"`
	Answer  string      `json:"answer"`
}

// Render encodes the run object. A terminal run is rendered once and stored, so that every
// replay has the same bytes.
func (r *Run) Render() ([]byte, error) {
	shown := *r // nil lists stay nil in r
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

// End makes the run terminal. The argument finished is the time of its end. The run expires
// retentionSeconds later, or never if retentionSeconds is zero. End does not change a finish reason
// that is already set.
func (r *Run) End(status RunStatus, cause *RunError, finished Time, retentionSeconds int64) {
	r.Status, r.Error, r.FinishedAt = status, cause, &finished
	if r.FinishReason == nil {
		r.FinishReason = status.EndReason()
	}
	if retentionSeconds > 0 {
		r.ExpiresAt = AtPtr(finished.Add(time.Duration(retentionSeconds) * time.Second))
	}
}
