package llm

import (
	"context"
	"encoding/json"

	"parley/shared/domain"
)

// Model is one language model. It is safe for concurrent use.
type Model interface {
	// Info returns the model's name and context size. It does not call the provider.
	Info() Info
	// Stream makes one model call. It calls emit for each piece of text, in order and from the
	// calling goroutine. emit must not be nil and must not block. The concatenated pieces are
	// Response.Text. The error is an *Error, or the error of ctx after ctx has ended.
	Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error)
}

// Info describes a model. Name has the form that agents use, such as "openai/gpt-5-mini".
// ContextTokens is the size of the model's context in estimated tokens.
type Info struct {
	Name          string
	ContextTokens int
}

// Request is the input of one model call.
type Request struct {
	// Organization is the id of the organization that makes the call, or empty. It is not sent to
	// the provider: circuit breakers keep the faults of organizations apart.
	Organization string
	System       string
	Messages     []Message // oldest first; the last message is a user message or a tool result
	Tools        []ToolSpec
	// ToolChoice restricts the use of Tools. It is domain.ChoiceAuto, ChoiceNone, ChoiceRequired,
	// or the name of a tool that the model must call. Empty means ChoiceAuto.
	ToolChoice string
	// MaxTokens is the maximum length of the answer in the model's own tokens; 0 means the model's
	// maximum.
	MaxTokens int64
	// Output is the JSON Schema of the answer, or nil if the answer is text. The schema describes
	// an object. Response.Text contains the answer as JSON, which need not match the schema.
	Output json.RawMessage
	// Settings are the model settings for this call. Each provider converts them to the form of its
	// API. MaxTokens already takes their output limit into account.
	Settings domain.ModelSettings
	// Correction reports that the last two messages are an answer that does not match Output, and a
	// message that describes the errors of this answer.
	Correction bool
	// SessionStart reports that the session does not contain an earlier answer.
	SessionStart bool
}

// Role is the author of a message.
type Role string

// These are the roles of messages: the caller, the agent, and a tool whose result the message
// contains.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a prompt. Its JSON form is stored, so field names must not change.
type Message struct {
	Role      Role            `json:"role"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`      // of a user message: untrusted data that the request contained
	ToolCalls []ToolCall      `json:"toolCalls,omitempty"` // of an assistant message: the tool calls that it requests
	Result    *ToolResult     `json:"result,omitempty"`    // of a tool message: the result of one call
	// Thinking is the model's record of its reasoning for this assistant message. It is stored and
	// sent back to the model unchanged. Only the model that wrote the record can read it, and some
	// models reject a tool result without it.
	Thinking json.RawMessage `json:"thinking,omitempty"`
	// Attachments belong to a user message. They are not stored as a part of the message.
	Attachments []Attachment `json:"-"`
}

// ToolCall is a model's request to call a tool. Arguments is a JSON object. If the model has
// written anything else, Arguments is nil and Malformed contains the beginning of the model's text.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Malformed string          `json:"malformed,omitempty"`
}

// ToolResult is the outcome of a tool call in the form in which the model receives it. Sources
// contains the sources that the tool found, with the numbers by which the model cites them.
type ToolResult struct {
	CallID  string            `json:"callId"`
	Name    string            `json:"name"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Sources []domain.Citation `json:"sources,omitempty"`
	Failed  bool              `json:"failed,omitempty"`
}

// ToolSpec describes a tool to the model. Schema is the JSON Schema of the arguments, which are an
// object.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Delta is a piece of the text of an answer.
type Delta struct{ Text string }

// Response is a model's complete answer.
type Response struct {
	Text       string
	ToolCalls  []ToolCall
	Usage      Usage
	Model      string // name of the model that answered, in the form of Info.Name
	StopReason StopReason
	Thinking   json.RawMessage // the model's reasoning, to be copied to the Message with this answer; nil if there is none
}

// StopReason is the reason why the model stopped.
type StopReason string

// The stop reasons are, in this order: the answer is complete, the model requests tools, the output
// limit is reached, the provider has withheld the rest of the answer.
const (
	StopEnd       StopReason = "end"
	StopToolCalls StopReason = "tool_calls"
	StopLength    StopReason = "length"
	StopFiltered  StopReason = "content_filter"
)

// Usage contains the number of tokens of a call, as the model counts them. The numbers are never
// negative. If Estimated is true, the provider has not sent both numbers, and the missing ones are
// estimates.
type Usage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	Estimated    bool  `json:"estimated,omitempty"`
}
