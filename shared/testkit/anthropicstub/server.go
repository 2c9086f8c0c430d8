package anthropicstub

import (
	"io"
	"net/http"
	"strings"

	"parley/shared/testkit/modelstub"
)

// maxBody bounds a request's body in bytes.
const maxBody = 16 << 20

// These types are shared by the stubs of all providers.
type (
	// Request is a client's request.
	Request = modelstub.Request
	// Message is one message of a request. A tool's result is a separate message.
	Message = modelstub.Message
	// ToolCall is a tool call, in a request or in a reply.
	ToolCall = modelstub.ToolCall
	// Reply is the reply that the server should send.
	Reply = modelstub.Reply
)

// Server is the stub: an http.Handler, safe for concurrent use.
type Server struct{ *modelstub.Core }

// New returns a server that follows the directives in a message and echoes the message's text.
func New() *Server { return &Server{Core: modelstub.NewCore()} }

// ServeHTTP serves POST …/v1/messages under any prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !s.Allows(r.Header.Get("X-Api-Key")):
		modelstub.WriteJSON(w, http.StatusUnauthorized, failure("authentication_error", "invalid x-api-key"))
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/messages"):
		modelstub.WriteJSON(w, http.StatusNotFound, failure("not_found_error", "Not found"))
	case r.Header.Get("Anthropic-Version") == "":
		modelstub.WriteJSON(w, http.StatusBadRequest, failure("invalid_request_error", "anthropic-version: header is required"))
	default:
		s.message(w, r)
	}
}

// message serves a request to the Messages API. A request that violates the protocol gets status
// 400 and is not counted.
func (s *Server) message(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		modelstub.WriteJSON(w, http.StatusRequestEntityTooLarge, failure("request_too_large", "Request exceeds the maximum size"))
		return
	}

	req, problem := readRequest(body)
	if problem != "" {
		modelstub.WriteJSON(w, http.StatusBadRequest, failure("invalid_request_error", problem))
		return
	}

	req.Header = make(map[string]string, len(r.Header))
	for name := range r.Header {
		req.Header[name] = r.Header.Get(name)
	}

	s.Serve(w, r, req, wire{})
}
