package anthropicstub

import (
	"fmt"
	"net/http"

	"parley/shared/testkit/modelstub"
)

// stream writes events and flushes each one.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	index int // index of the block being written
}

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	return &stream{w: w, flush: http.NewResponseController(w).Flush}
}

func (s *stream) raw(event, data string) {
	// Ignore the write's error: if the client has disconnected, the request's context is done.
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data)
	_ = s.flush()
}

func (s *stream) send(event string, fields map[string]any) {
	fields["type"] = event
	s.raw(event, string(encode(fields)))
}

func (s *stream) start(req Request, reply Reply) {
	s.send("message_start", map[string]any{"message": message(req, reply)})
	s.send("ping", map[string]any{})
}

func (s *stream) block(content map[string]any) {
	s.send("content_block_start", map[string]any{"index": s.index, "content_block": content})
}

func (s *stream) delta(delta map[string]any) {
	s.send("content_block_delta", map[string]any{"index": s.index, "delta": delta})
}

func (s *stream) blockStop() {
	s.send("content_block_stop", map[string]any{"index": s.index})
	s.index++
}

// answer writes the events between the start and the end of a message.
func (s *stream) answer(r *http.Request, req Request, reply Reply) {
	switch reply.Fault {
	case "badargs":
		name := reply.Param
		if name == "" {
			name = "webSearch"
		}
		s.call(ToolCall{ID: "call_bad", Name: name, Arguments: `{"query": "unclosed`}, 0)
		s.finish("tool_use", req, reply)
		return
	case "cutcall":
		s.call(ToolCall{ID: "call_cut", Name: "webSearch", Arguments: `{"query":"whole"}`}, 9)
		panic(http.ErrAbortHandler) // net/http's way to drop a connection
	}

	if pieces := reply.Pieces(); len(pieces) > 0 {
		s.block(map[string]any{"type": "text", "text": ""})
		for i, piece := range pieces {
			s.delta(map[string]any{"type": "text_delta", "text": piece})
			if i+1 == modelstub.Middle(pieces) && s.breakOff(r, req, reply) {
				return
			}
		}
		s.blockStop()
	}

	for _, call := range reply.ToolCalls {
		s.call(call, 0)
	}

	s.finish(stopReason(reply), req, reply)
}

// breakOff executes the reply's fault, if the reply contains a fault in the middle of the answer.
// It returns true if the fault ends the answer.
func (s *stream) breakOff(r *http.Request, req Request, reply Reply) bool {
	switch reply.Fault {
	case "cut":
		panic(http.ErrAbortHandler)
	case "eof":
		return true
	case "stall":
		<-r.Context().Done()
		return true
	case "badjson":
		s.raw("content_block_delta", `{"type":"content_block_delta","index":0,"delta":`)
		return true
	case "event":
		s.raw("error", string(failure("overloaded_error", "Overloaded")))
		return true
	case "length":
		s.blockStop()
		s.finish("max_tokens", req, reply)
		return true
	default:
		return false
	}
}

// call streams a tool call: its name, then pieces of the arguments. If cut > 0, it stops after that
// many bytes of the arguments.
func (s *stream) call(call ToolCall, cut int) {
	s.block(map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": map[string]any{}})
	s.delta(map[string]any{"type": "input_json_delta", "partial_json": ""})
	for _, piece := range modelstub.ArgumentPieces(call.Arguments, cut) {
		s.delta(map[string]any{"type": "input_json_delta", "partial_json": piece})
	}
	if cut == 0 {
		s.blockStop()
	}
}

func (s *stream) finish(reason string, req Request, reply Reply) {
	fields := map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}}
	if reply.Fault != "nousage" {
		_, answer := modelstub.Words(req, reply)
		fields["usage"] = map[string]int{"output_tokens": answer}
	}
	s.send("message_delta", fields)
	s.send("message_stop", map[string]any{})
}
