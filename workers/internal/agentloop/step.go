package agentloop

import (
	"encoding/json"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// StepKind says what a step was.
type StepKind string

// The kinds of steps.
const (
	StepModelTurn StepKind = "model_turn"
	StepToolCall  StepKind = "tool_call"
)

// Step is one recorded step of a run. Its JSON form is stored and outlives releases: fields may be
// added, never renamed.
type Step struct {
	Seq  int       `json:"seq"` // from 1, without gaps
	Kind StepKind  `json:"kind"`
	Turn *TurnStep `json:"turn,omitempty"` // of a model_turn
	Tool *ToolStep `json:"tool,omitempty"` // of a tool_call
}

// TurnStep is a model turn; recorded are those that asked for tools. Text is what was shown of what the model wrote,
// and Citations are the markers in it, placed in the whole message.
type TurnStep struct {
	Model            string            `json:"model"`
	Text             string            `json:"text,omitempty"`
	ToolCalls        []llm.ToolCall    `json:"toolCalls"`
	Usage            llm.Usage         `json:"usage"`
	CostMicros       int64             `json:"costMicros,omitempty"`
	Thinking         json.RawMessage   `json:"thinking,omitempty"`
	Citations        []domain.Citation `json:"citations,omitempty"`
	CitationsRemoved int               `json:"citationsRemoved,omitempty"`
	// BrokeOff: the model was cut off at its output limit, so none of the calls is made.
	BrokeOff bool `json:"brokeOff,omitempty"`
}

// ToolStep is a tool call that ended, well or not, with the sources it found under the numbers they were given.
type ToolStep struct {
	Call    domain.ToolCall   `json:"call"`
	Sources []domain.Citation `json:"sources,omitempty"`
}

// States of a tool call in run objects and events.
const (
	toolRunning   = "running"
	toolCompleted = "completed"
	toolFailed    = "failed"
)
