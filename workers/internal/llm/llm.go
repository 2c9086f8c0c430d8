package llm

import (
	"context"
	"encoding/json"

	"parley/shared/domain"
)

// Model is one language model, bound to its name; safe for concurrent use.
type Model interface {
	// Info names the model and its size; it costs nothing and never fails.
	Info() Info
	// Stream makes one model call. emit, never nil, is called in order from the calling
	// goroutine for each piece of text and must not block; the pieces put together are
	// Response.Text. It fails with an *Error, or with ctx's error once ctx is done.
	Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error)
}

// Info describes a model: Name as agents write it, such as "openai/gpt-5-mini", and its context in (estimated) tokens.
type Info struct {
	Name          string
	ContextTokens int
}

// Request is the input of one model call.
type Request struct {
	System   string
	Messages []Message // oldest first; ends with a user message or the results of tool calls
	Tools    []ToolSpec
	// MaxTokens caps the answer in the model's own tokens; 0 leaves it to the model.
	MaxTokens int64
	// SessionStart says that the session holds no earlier answer.
	SessionStart bool
}

// Role says who a message is from.
type Role string

// The roles of messages: a caller, the agent, the result of one tool call.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a prompt; its JSON form is stored, so field names stay.
type Message struct {
	Role      Role            `json:"role"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`      // user: untrusted data sent with the message
	ToolCalls []ToolCall      `json:"toolCalls,omitempty"` // assistant: the calls it asked for
	Result    *ToolResult     `json:"result,omitempty"`    // tool: the outcome of one call
	// Thinking is a model's own record of how it came to this assistant message. It is kept and handed back as it
	// came: only the model that wrote it reads it, and some refuse a tool's result without it.
	Thinking json.RawMessage `json:"thinking,omitempty"`
}

// ToolCall is a model's wish to use a tool. Arguments is a JSON object; when the model wrote
// none, Arguments is nil and Malformed holds the (shortened) text it wrote instead.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Malformed string          `json:"malformed,omitempty"`
}

// ToolResult is the outcome of one tool call as the model is told it; Sources carry the numbers to cite them by.
type ToolResult struct {
	CallID  string            `json:"callId"`
	Name    string            `json:"name"`
	Output  json.RawMessage   `json:"output,omitempty"`
	Sources []domain.Citation `json:"sources,omitempty"`
	Failed  bool              `json:"failed,omitempty"`
}

// ToolSpec offers a tool to the model; Schema is the JSON Schema of its arguments, an object.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Delta is a piece of the answer while it is being written.
type Delta struct{ Text string }

// Response is one complete answer of a model.
type Response struct {
	Text       string
	ToolCalls  []ToolCall
	Usage      Usage
	Model      string // as Info.Name
	StopReason StopReason
	Thinking   json.RawMessage // belongs into the Message made of this answer; nil for none
}

// StopReason says why the model stopped.
type StopReason string

// Reasons to stop: the answer is complete, tools are wanted, the output limit was reached.
const (
	StopEnd       StopReason = "end"
	StopToolCalls StopReason = "tool_calls"
	StopLength    StopReason = "length"
)

// Usage counts tokens in the model's own unit, never negative; Estimated when the provider did not say.
type Usage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	Estimated    bool  `json:"estimated,omitempty"`
}
