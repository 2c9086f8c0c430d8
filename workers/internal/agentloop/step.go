package agentloop

import (
	"encoding/json"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// StepKind is the kind of a step.
type StepKind string

// The kinds of steps.
const (
	StepModelTurn StepKind = "model_turn"
	StepToolCall  StepKind = "tool_call"
)

// Step is one recorded step of a run. Its JSON form is stored and read by later releases, so fields
// may be added but never renamed.
type Step struct {
	Seq  int       `json:"seq"` // number of the step; the first step has number 1, and there are no gaps
	Kind StepKind  `json:"kind"`
	Turn *TurnStep `json:"turn,omitempty"` // set for a model_turn
	Tool *ToolStep `json:"tool,omitempty"` // set for a tool_call
}

// TurnStep is a recorded model turn that requested tools. Text is the text that was emitted, and
// Citations are the citations of its markers. Their offsets count from the beginning of the whole
// message.
type TurnStep struct {
	Model            string            `json:"model"`
	Text             string            `json:"text,omitempty"`
	ToolCalls        []llm.ToolCall    `json:"toolCalls"`
	Usage            llm.Usage         `json:"usage"`
	CostMicros       int64             `json:"costMicros,omitempty"`
	Thinking         json.RawMessage   `json:"thinking,omitempty"`
	Citations        []domain.Citation `json:"citations,omitempty"`
	CitationsRemoved int               `json:"citationsRemoved,omitempty"`
	// BrokeOff reports that the model reached its output limit. Then none of the turn's calls is
	// executed, because a call may be incomplete.
	BrokeOff bool `json:"brokeOff,omitempty"`
}

// ToolStep is a finished tool call, whether successful or not, with the numbered sources that it
// found.
type ToolStep struct {
	Call    domain.ToolCall   `json:"call"`
	Sources []domain.Citation `json:"sources,omitempty"`
}

// These are the statuses of a tool call in run objects and events.
const (
	toolRunning   = "running"
	toolCompleted = "completed"
	toolFailed    = "failed"
)
