package llm

import (
	"context"
	"encoding/json"

	"parley/shared/domain"
)

// Model is one language model. It is safe for concurrent use.
type Model interface {
	// Info returns the model's name and context size. It makes no call to the provider and never
	// fails.
	Info() Info
	// Stream makes one model call. It calls emit, which is never nil and must not block, for each
	// piece of text, in order and from the calling goroutine. The concatenated pieces are
	// Response.Text. Errors are an *Error, or ctx's error once ctx is done.
	Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error)
}

// Info describes a model. Name is in the form that agents use, such as "openai/gpt-5-mini".
// ContextTokens is the size of its context in estimated tokens.
type Info struct {
	Name          string
	ContextTokens int
}

// Request is the input of one model call.
type Request struct {
	System   string
	Messages []Message // oldest first; the last is a user message or a tool result
	Tools    []ToolSpec
	// ToolChoice constrains the use of Tools: domain.ChoiceAuto, ChoiceNone, ChoiceRequired, or the name
	// of a tool, which the model must call. Empty means auto.
	ToolChoice string
	// MaxTokens limits the answer, in the model's own tokens; 0 means the model's maximum.
	MaxTokens int64
	// Output is the JSON Schema of the answer, an object; nil: the answer is text. The model writes
	// the JSON as Response.Text. It need not match the schema.
	Output json.RawMessage
	// Settings are sent to the provider in its form. MaxTokens already includes their limit.
	Settings domain.ModelSettings
	// Correction reports that the last two messages are an answer that does not match Output, and what
	// is wrong with it.
	Correction bool
	// SessionStart reports that the session has no earlier answer.
	SessionStart bool
}

// Role is the author of a message.
type Role string

// Roles of messages: a caller, the agent, the result of a tool call.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a prompt. Its JSON form is stored, so field names must not change.
type Message struct {
	Role      Role            `json:"role"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`      // user: untrusted data sent with the message
	ToolCalls []ToolCall      `json:"toolCalls,omitempty"` // for an assistant message: the tool calls that it requests
	Result    *ToolResult     `json:"result,omitempty"`    // tool: the outcome of one call
	// Thinking is a model's record of its reasoning for this assistant message. It is stored and
	// returned unchanged. Only the model that wrote it can read it, and some models reject a tool
	// result without it.
	Thinking json.RawMessage `json:"thinking,omitempty"`
	// Attachments belong to a user message. They are not stored with it.
	Attachments []Attachment `json:"-"`
}

// ToolCall is a model's request to call a tool. Arguments is a JSON object. If the model wrote
// anything else, Arguments is nil and Malformed contains the beginning of its text.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Malformed string          `json:"malformed,omitempty"`
}

// ToolResult is the outcome of a tool call for the model. Sources contains the sources that the
// tool found, with the numbers by which the model cites them.
type ToolResult struct {
	CallID  string            `json:"callId"`
	Name    string            `json:"name"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Sources []domain.Citation `json:"sources,omitempty"`
	Failed  bool              `json:"failed,omitempty"`
}

// ToolSpec describes a tool to the model. Schema is the JSON Schema of its arguments, an object.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Delta is a piece of an answer's text.
type Delta struct{ Text string }

// Response is a model's complete answer.
type Response struct {
	Text       string
	ToolCalls  []ToolCall
	Usage      Usage
	Model      string // the model that answered, in the form of Info.Name
	StopReason StopReason
	Thinking   json.RawMessage // to be copied to the Message for this answer; nil if there is none
}

// StopReason is the reason why the model stopped.
type StopReason string

// Stop reasons: the answer is complete, the model requests tools, the output limit is reached, or the
// provider withheld the rest of the answer.
const (
	StopEnd       StopReason = "end"
	StopToolCalls StopReason = "tool_calls"
	StopLength    StopReason = "length"
	StopFiltered  StopReason = "content_filter"
)

// Usage contains token counts in the model's own unit. They are never negative. Estimated reports
// that the provider sent no counts.
type Usage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	Estimated    bool  `json:"estimated,omitempty"`
}
