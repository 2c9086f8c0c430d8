package anthropicstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"parley/shared/testkit/modelstub"
)

// messageID is the id of every response, so that equal requests get identical responses.
const messageID = "msg_stub"

// wire encodes responses in Anthropic's format.
type wire struct{}

// Failure returns an error response.
func (wire) Failure(status int, fault string) (int, []byte) {
	switch fault {
	case "context":
		return http.StatusBadRequest, failure("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")
	case "quota":
		return http.StatusPaymentRequired, failure("billing_error", "Your credit balance is too low.")
	}

	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", 529: "overloaded_error",
	}[status]

	switch {
	case kind != "":
	case status >= http.StatusInternalServerError:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}

	return status, failure(kind, "The stub is set to answer "+strconv.Itoa(status)+".")
}

// Answer writes a message, whole or streamed.
func (wire) Answer(w http.ResponseWriter, r *http.Request, req Request, reply Reply) {
	if !req.Stream {
		modelstub.WriteJSON(w, http.StatusOK, encode(whole(req, reply)))
		return
	}
	s := newStream(w)
	s.start(req, reply)
	s.answer(r, req, reply)
}

func stopReason(reply Reply) string {
	if len(reply.ToolCalls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func whole(req Request, reply Reply) map[string]any {
	content := []wireBlock{}
	if text := reply.Whole(); text != "" {
		content = append(content, wireBlock{Type: "text", Text: text})
	}
	for _, c := range reply.ToolCalls {
		content = append(content, wireBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Arguments)})
	}
	m := message(req, reply)
	m["content"], m["stop_reason"] = content, stopReason(reply)
	return m
}

// message returns a message without content, as at the start of a response.
func message(req Request, reply Reply) map[string]any {
	m := map[string]any{
		"id": messageID, "type": "message", "role": "assistant", "model": req.Model,
		"content": []wireBlock{}, "stop_reason": nil, "stop_sequence": nil,
	}
	if reply.Fault != "nousage" {
		prompt, answer := modelstub.Words(req, reply)
		m["usage"] = map[string]int{
			"input_tokens": prompt, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": answer,
		}
	}
	return m
}

func failure(kind, message string) []byte {
	return encode(map[string]any{
		"type": "error", "error": map[string]string{"type": kind, "message": message}, "request_id": "req_stub",
	})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding answer: %v", err)) // happens only if a scripted tool call with invalid arguments is not streamed
	}
	return b
}
