package observed

import (
	"encoding/json"

	"parley/shared/telemetry/tracing"
	"parley/workers/internal/llm"
)

// begin sets the attributes of a model call's request on the span of the call. It does nothing if
// the call is not traced.
func (m *model) begin(span tracing.Span, req *llm.Request) {
	if !span.On() {
		return
	}
	span.Str("gen_ai.operation.name", "chat")
	span.Str("gen_ai.provider.name", m.provider)
	span.Str("gen_ai.request.model", m.name)
	if req.MaxTokens > 0 {
		span.Int("gen_ai.request.max_tokens", req.MaxTokens)
	}
	span.Float("gen_ai.request.temperature", req.Settings.Temperature)
	span.Float("gen_ai.request.top_p", req.Settings.TopP)
	if req.Settings.Seed != nil {
		span.Int("gen_ai.request.seed", *req.Settings.Seed)
	}
	if m.observer.content {
		span.Str("gen_ai.system_instructions", written([]part{{Type: "text", Content: req.System}}))
		span.Str("gen_ai.input.messages", written(messages(req.Messages)))
	}
}

// end sets the attributes of a model call's response on the span of the call. It is not called for
// failed calls.
func (m *model) end(span tracing.Span, res *llm.Response) {
	if !span.On() {
		return
	}
	span.Str("gen_ai.response.model", res.Model)
	span.Strs("gen_ai.response.finish_reasons", finish[res.StopReason])
	span.Int("gen_ai.usage.input_tokens", res.Usage.InputTokens)
	span.Int("gen_ai.usage.output_tokens", res.Usage.OutputTokens)
	if m.observer.content {
		answer := messages([]llm.Message{{Role: llm.RoleAssistant, Text: res.Text, ToolCalls: res.ToolCalls}})
		answer[0].FinishReason = finish[res.StopReason]
		span.Str("gen_ai.output.messages", written(answer))
	}
}

// finish maps stop reasons to the finish reasons of OpenTelemetry's conventions.
var finish = map[llm.StopReason]string{
	llm.StopEnd: "stop", llm.StopToolCalls: "tool_call", llm.StopLength: "length", llm.StopFiltered: "content_filter",
}

// message and part are the JSON form of a message and of its parts in OpenTelemetry's conventions.
type message struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is a text, a file, a tool call or the result of a tool call. Only the fields of its type are
// set.
type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  json.RawMessage `json:"response,omitempty"`
}

// messages converts a prompt to the value of OpenTelemetry's attribute for input messages.
func messages(prompt []llm.Message) []message {
	out := make([]message, len(prompt))
	for i, m := range prompt {
		out[i] = message{Role: string(m.Role), Parts: parts(m)}
	}
	return out
}

// parts returns the parts of a message. It never returns nil, because the attribute must be a list.
func parts(m llm.Message) []part {
	list := []part{}
	if m.Text != "" {
		list = append(list, part{Type: "text", Content: m.Text})
	}
	if len(m.Data) > 0 {
		list = append(list, part{Type: "text", Content: string(m.Data)})
	}

	for _, a := range m.Attachments { // only the names of files, because their contents would be too large for an attribute
		list = append(list, part{Type: "file", Name: a.Name})
	}
	for _, c := range m.ToolCalls {
		list = append(list, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	if m.Result != nil {
		list = append(list, part{Type: "tool_call_response", ID: m.Result.CallID, Response: m.Result.Output})
	}
	return list
}

// written returns a value encoded as JSON, or "" if it cannot be encoded.
func written(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}
