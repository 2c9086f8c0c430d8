package domain

// SpanKind is the kind of a span of a timeline.
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

// Span is a part of a run's time. Model and tool calls are within their attempt; within one
// attempt only tool calls overlap.
type Span struct {
	Kind         SpanKind   `json:"kind"`
	Name         string     `json:"name"`
	Attempt      int        `json:"attempt"` // number of the attempt; for "queue" the next attempt, for "wait" the previous one
	Status       SpanStatus `json:"status"`
	StartedAt    Time       `json:"startedAt"`
	FinishedAt   *Time      `json:"finishedAt"` // nil while it is in progress
	ToolCallID   string     `json:"toolCallId,omitempty"`
	Model        string     `json:"model,omitempty"`
	InputTokens  *int64     `json:"inputTokens,omitempty"` // this and the next two are set for a completed turn
	OutputTokens *int64     `json:"outputTokens,omitempty"`
	CostMicros   *int64     `json:"costMicros,omitempty"`
	Message      string     `json:"message,omitempty"` // the reason of its result; for "wait" the decision
}

// Timeline shows how the time of a run was spent. Its JSON form is the API's.
type Timeline struct {
	RunID  string    `json:"runId"`
	Status RunStatus `json:"status"`
	Input  Input     `json:"input"` // the run's input, which run objects do not contain
	Spans  []Span    `json:"spans"` // ordered by StartedAt
}
