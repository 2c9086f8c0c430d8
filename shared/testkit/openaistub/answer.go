package openaistub

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// answer carries a reply out: the faults that come before an answer, then the answer with those inside it.
func answer(w http.ResponseWriter, r *http.Request, req Request, reply Reply) {
	switch status, err := strconv.Atoi(reply.Fault); {
	case err == nil && status >= 400 && status <= 599:
		writeStatus(w, status, reply.Param)
		return
	case reply.Fault == "refuse":
		panic(http.ErrAbortHandler) // net/http's own way to drop a connection
	case reply.Fault == "hang":
		<-r.Context().Done()
		return
	case reply.Fault == "context":
		writeError(w, http.StatusBadRequest, "invalid_request_error", "context_length_exceeded",
			"This model's maximum context length is 8192 tokens.")
		return
	case reply.Fault == "quota":
		writeError(w, http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "You exceeded your current quota.")
		return
	case reply.Fault == "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
		return
	}
	if !req.Stream {
		writeWhole(w, req, reply)
		return
	}
	streamAnswer(newStream(w, req), r, req, reply)
}

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
	half := (len(pieces(reply.Text)) + 1) / 2
	for i, piece := range pieces(reply.Text) {
		s.text(piece)
		if i+1 == half && s.breakOff(r, req, reply) {
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

// breakOff carries out the faults in the middle of an answer; true means that it ends here.
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
	case "length":
		s.finish("length", req, reply)
		return true
	default:
		return false
	}
}

// pieces splits a text as a model's tokens would: words with the space before them.
func pieces(text string) []string {
	var out []string
	for text != "" {
		n := strings.IndexByte(text[1:], ' ')
		if n < 0 {
			return append(out, text)
		}
		out = append(out, text[:n+1])
		text = text[n+1:]
	}
	return out
}

func writeStatus(w http.ResponseWriter, status int, param string) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		if param == "" {
			param = "1"
		}
		w.Header().Set("Retry-After", param)
	}
	kind, code := "invalid_request_error", strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	switch {
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	case status == http.StatusTooManyRequests:
		kind, code = "requests", "rate_limit_exceeded"
	}
	writeError(w, status, kind, code, "The stub was told to answer "+strconv.Itoa(status)+".")
}
