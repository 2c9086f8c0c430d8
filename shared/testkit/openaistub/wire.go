package openaistub

import (
	"encoding/json"
	"fmt"
	"net/http"

	"parley/shared/testkit/modelstub"
)

// created is the fixed Unix time in every response, so that equal requests get identical responses.
const created = 1_750_000_000

const completionID = "chatcmpl-stub"

// chunk is a part of a streamed completion, or a whole completion.
type chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

// choice is the answer in a chunk. Delta is set in a streamed chunk, and Message in a whole
// completion.
type choice struct {
	Index        int      `json:"index"`
	Delta        *content `json:"delta,omitempty"`
	Message      *content `json:"message,omitempty"`
	FinishReason *string  `json:"finish_reason"`
}

type content struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []wireCall `json:"tool_calls,omitempty"`
}

type wireCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// countUsage returns the usage of a request and its reply, counted in words. It returns nil if the
// fault is nousage.
func countUsage(req Request, reply Reply) *usage {
	if reply.Fault == "nousage" {
		return nil
	}
	prompt, answer := modelstub.Words(req, reply)
	return &usage{Prompt: prompt, Completion: answer, Total: prompt + answer}
}

// stream writes chunks as server-sent events and flushes each event.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	model string
}

func newStream(w http.ResponseWriter, req Request) *stream {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	return &stream{w: w, flush: http.NewResponseController(w).Flush, model: req.Model}
}

func (s *stream) raw(data string) {
	// Ignore the write's error: if the client has disconnected, the request's context is done.
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", data)
	_ = s.flush()
}

func (s *stream) send(c chunk) {
	c.ID, c.Object, c.Created, c.Model = completionID, "chat.completion.chunk", created, s.model
	if c.Choices == nil {
		c.Choices = []choice{}
	}
	s.raw(string(encode(c)))
}

func (s *stream) delta(d content) { s.send(chunk{Choices: []choice{{Delta: &d}}}) }

func (s *stream) start() {
	empty := ""
	s.delta(content{Role: "assistant", Content: &empty})
}

func (s *stream) text(text string) { s.delta(content{Content: &text}) }

// call streams a tool call in the same way as OpenAI: the name first, then pieces of the arguments.
// If cut > 0, it stops after that many bytes of the arguments.
func (s *stream) call(index int, call ToolCall, cut int) {
	first := wireCall{Index: &index, ID: call.ID, Type: "function", Function: wireFunction{Name: call.Name}}
	s.delta(content{ToolCalls: []wireCall{first}})
	for _, piece := range modelstub.ArgumentPieces(call.Arguments, cut) {
		s.delta(content{ToolCalls: []wireCall{{Index: &index, Function: wireFunction{Arguments: piece}}}})
	}
}

func (s *stream) finish(reason string, req Request, reply Reply) {
	s.send(chunk{Choices: []choice{{Delta: &content{}, FinishReason: &reason}}})
	if u := countUsage(req, reply); u != nil {
		s.send(chunk{Usage: u})
	}
	s.raw("[DONE]")
}

func writeWhole(w http.ResponseWriter, req Request, reply Reply) {
	reason := "stop"
	text := reply.Whole()
	message := &content{Role: "assistant", Content: &text}
	for _, c := range reply.ToolCalls {
		reason = "tool_calls"
		message.ToolCalls = append(message.ToolCalls, wireCall{
			ID: c.ID, Type: "function", Function: wireFunction{Name: c.Name, Arguments: c.Arguments},
		})
	}

	modelstub.WriteJSON(w, http.StatusOK, encode(chunk{
		ID: completionID, Object: "chat.completion", Created: created, Model: req.Model,
		Choices: []choice{{Message: message, FinishReason: &reason}}, Usage: countUsage(req, reply),
	}))
}

func failure(kind, code, message string) []byte {
	return encode(map[string]any{
		"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code},
	})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding answer: %v", err)) // cannot happen: all values in an answer can be encoded
	}
	return b
}
