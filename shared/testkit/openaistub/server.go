package openaistub

import (
	"encoding/json"
	"fmt"
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
	// Message is one message of a request.
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

// ServeHTTP serves POST …/chat/completions, POST …/embeddings and GET …/models under any prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !s.Allows(key):
		modelstub.WriteJSON(w, http.StatusUnauthorized,
			failure("invalid_request_error", "invalid_api_key", "Incorrect API key provided."))
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.complete(w, r)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/embeddings"):
		s.embed(w, r)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"stub","object":"model","created":0,"owned_by":"parley"}]}`)
	default:
		modelstub.WriteJSON(w, http.StatusNotFound, failure("invalid_request_error", "unknown_url", "Unknown request URL."))
	}
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(r)
	if err != nil {
		modelstub.WriteJSON(w, http.StatusBadRequest, failure("invalid_request_error", "invalid_json", err.Error()))
		return
	}
	s.Serve(w, r, req, wire{})
}

// wireRequest is the part of a request for a completion that the stub uses.
type wireRequest struct {
	Model    string        `json:"model"`
	Stream   bool          `json:"stream"`
	Messages []wireMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readRequest reads the body of a request for a completion. It returns an error if the body is too
// large or not valid JSON.
func readRequest(r *http.Request) (Request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return Request{}, fmt.Errorf("reading body: %w", err)
	}

	var wire wireRequest
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, fmt.Errorf("reading request: %w", err)
	}

	req := Request{Model: wire.Model, Stream: wire.Stream, Body: body, Header: make(map[string]string, len(r.Header))}
	for name := range r.Header {
		req.Header[name] = r.Header.Get(name)
	}

	for _, t := range wire.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}

	for _, m := range wire.Messages {
		message := Message{Role: m.Role, Content: contentText(m.Content), ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		req.Messages = append(req.Messages, message)
	}

	return req, nil
}

// contentText parses both forms of content: a string, or a list of parts.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}

	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}

	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}

	return b.String()
}
