package openaistub

import (
	"net/http"
	"strconv"

	"parley/shared/testkit/modelstub"
)

// wire encodes responses in OpenAI's format.
type wire struct{}

// Failure returns an error response.
func (wire) Failure(status int, fault string) (int, []byte) {
	const refused = "invalid_request_error"
	switch fault {
	case "context":
		return http.StatusBadRequest, failure(refused, "context_length_exceeded", "This model's maximum context length is 8192 tokens.")
	case "quota":
		return http.StatusTooManyRequests, failure("insufficient_quota", "insufficient_quota", "You exceeded your current quota.")
	}

	kind, code := refused, modelstub.StatusWords(status)
	switch {
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	}

	return status, failure(kind, code, "The stub is set to answer "+strconv.Itoa(status)+".")
}

// Answer writes a completion, whole or streamed.
func (wire) Answer(w http.ResponseWriter, r *http.Request, req Request, reply Reply) {
	if !req.Stream {
		writeWhole(w, req, reply)
		return
	}
	streamAnswer(newStream(w, req), r, req, reply)
}

// streamAnswer sends a reply in pieces: first the text, then the tool calls. A fault may end the
// stream early.
func streamAnswer(s *stream, r *http.Request, req Request, reply Reply) {
	s.start()
	switch reply.Fault {
	case "badargs":
		name := reply.Param
		if name == "" {
			name = "webSearch"
		}
		s.call(0, ToolCall{ID: "call_bad", Name: name, Arguments: `{"query": "unclosed`}, 0)
		s.finish("tool_calls", req, reply)
		return
	case "cutcall":
		s.call(0, ToolCall{ID: "call_cut", Name: "webSearch", Arguments: `{"query":"whole"}`}, 9)
		panic(http.ErrAbortHandler)
	}

	pieces := reply.Pieces()
	for i, piece := range pieces {
		s.text(piece)
		if i+1 == modelstub.Middle(pieces) && s.breakOff(r, req, reply) {
			return
		}
	}

	for i, call := range reply.ToolCalls {
		s.call(i, call, 0)
	}

	reason := "stop"
	if len(reply.ToolCalls) > 0 {
		reason = "tool_calls"
	}

	s.finish(reason, req, reply)
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
		s.raw(`{"id":"chatcmpl-stub","choices":[{"delta":`)
		return true
	case "event":
		s.raw(`{"error":{"message":"The server had an error.","type":"server_error","param":null,"code":null}}`)
		return true
	case "length", "content_filter":
		s.finish(reply.Fault, req, reply)
		return true
	default:
		return false
	}
}
