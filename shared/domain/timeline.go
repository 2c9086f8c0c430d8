package domain

import "encoding/json"

// SpanKind is the kind of a span in a timeline.
type SpanKind string

// The kinds of spans: waiting for a worker, an attempt by a worker, a model call within an attempt,
// a tool call within an attempt, and waiting for a person between two attempts.
const (
	SpanQueue   SpanKind = "queue"
	SpanAttempt SpanKind = "attempt"
	SpanTurn    SpanKind = "turn"
	SpanTool    SpanKind = "tool"
	SpanWait    SpanKind = "wait"
)

// SpanStatus is the state of a span.
type SpanStatus string

// The states of spans. A lost span is one whose worker died, so its result is unknown.
const (
	SpanCompleted SpanStatus = "completed"
	SpanFailed    SpanStatus = "failed"
	SpanRunning   SpanStatus = "running"
	SpanWaiting   SpanStatus = "waiting"
	SpanLost      SpanStatus = "lost"
)

// Span is a part of a run's time. Spans of model and tool calls lie within the span of their
// attempt. Within an attempt, only tool calls overlap.
type Span struct {
	Kind         SpanKind   `json:"kind"`
	Name         string     `json:"name"`
	Attempt      int        `json:"attempt"` // number of the attempt; for "queue", of the next attempt; for "wait", of the previous attempt
	Status       SpanStatus `json:"status"`
	StartedAt    Time       `json:"startedAt"`
	FinishedAt   *Time      `json:"finishedAt"` // nil while the span is in progress
	ToolCallID   string     `json:"toolCallId,omitempty"`
	Model        string     `json:"model,omitempty"`
	InputTokens  *int64     `json:"inputTokens,omitempty"` // this field and the next two are set for a completed turn
	OutputTokens *int64     `json:"outputTokens,omitempty"`
	CostMicros   *int64     `json:"costMicros,omitempty"`
	Text         string     `json:"text,omitempty"`        // the beginning of the text that the model returned in a completed turn
	TextCut      bool       `json:"textCut,omitempty"`     // the text was truncated
	ToolCallIDs  []string   `json:"toolCallIds,omitempty"` // the calls that a completed turn requested, in order
	Message      string     `json:"message,omitempty"`     // the reason for the span's result; for "wait", the decision
	// Provider is the response of the model provider that made an attempt fail. It is only for
	// admins.
	Provider *ProviderError `json:"provider,omitempty"`
}

// MaxSpanText is the maximum number of characters of Span.Text.
const MaxSpanText = 4_000

// TimelineInput is the part of an Input that a timeline shows.
type TimelineInput struct {
	Message      string          `json:"message"`
	Data         json.RawMessage `json:"data,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	History      []Exchange      `json:"history,omitempty"`
	RunOptions
}

// Shown returns the part of the input that a timeline shows. Fields that only the adapter of a
// protocol reads are left out.
func (in *Input) Shown() TimelineInput {
	out := TimelineInput{Message: in.Message, Data: in.Data, Instructions: in.Instructions, History: in.History, RunOptions: in.RunOptions}
	if tools := in.ClientTools; tools != nil {
		out.ClientTools = &ClientTools{Tools: tools.Tools, Choice: tools.Choice}
	}
	return out
}

// Timeline shows how the time of a run was spent. It is computed when it is requested. The HTTP API
// uses its JSON form.
type Timeline struct {
	RunID  string        `json:"runId"`
	Status RunStatus     `json:"status"`
	Input  TimelineInput `json:"input"` // the run's input, which run objects lack
	Spans  []Span        `json:"spans"` // ordered by StartedAt
}
