package domain

// SpanKind says what a span of a timeline was.
type SpanKind string

// The kinds of spans: waiting for a worker, a worker's attempt, a call of the model in it, a call of a tool in it, and waiting for a
// person between two attempts.
const (
	SpanQueue   SpanKind = "queue"
	SpanAttempt SpanKind = "attempt"
	SpanTurn    SpanKind = "turn"
	SpanTool    SpanKind = "tool"
	SpanWait    SpanKind = "wait"
)

// SpanStatus says how a span ended, or that it goes on.
type SpanStatus string

// The states of spans. What was lost went with its worker: nobody saw how it ended.
const (
	SpanCompleted SpanStatus = "completed"
	SpanFailed    SpanStatus = "failed"
	SpanRunning   SpanStatus = "running"
	SpanWaiting   SpanStatus = "waiting"
	SpanLost      SpanStatus = "lost"
)

// Span is a part of a run's time. Turns and tools lie within their attempt; of one attempt, only tools overlap.
type Span struct {
	Kind         SpanKind   `json:"kind"`
	Name         string     `json:"name"`
	Attempt      int        `json:"attempt"` // its number; of a queue that of the attempt behind it, of a wait that of the one before
	Status       SpanStatus `json:"status"`
	StartedAt    Time       `json:"startedAt"`
	FinishedAt   *Time      `json:"finishedAt"` // nil while it goes on
	ToolCallID   string     `json:"toolCallId,omitempty"`
	Model        string     `json:"model,omitempty"`
	InputTokens  *int64     `json:"inputTokens,omitempty"` // of a turn that was answered, as are the next two
	OutputTokens *int64     `json:"outputTokens,omitempty"`
	CostMicros   *int64     `json:"costMicros,omitempty"`
	Message      string     `json:"message,omitempty"` // why it ended as it did; of a wait the decision
}

// Timeline tells where the time of a run went; its JSON form is the contract's.
type Timeline struct {
	RunID  string    `json:"runId"`
	Status RunStatus `json:"status"`
	Input  Input     `json:"input"` // what was asked, which run objects do not say
	Spans  []Span    `json:"spans"` // by StartedAt
}
