package openaistub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// keptRequests bounds how many requests are kept to be looked at; counts are kept for all.
const keptRequests = 1024

// maxBody bounds a request's body in bytes.
const maxBody = 16 << 20

// Request is what a client sent, as far as answers depend on it.
type Request struct {
	Model    string
	Stream   bool
	Messages []Message
	Tools    []string          // names, in order
	Body     json.RawMessage   // all of it
	Header   map[string]string // first values, by canonical name
}

// Message is one message of a request.
type Message struct {
	Role       string
	Content    string // text parts put together
	ToolCallID string
	ToolCalls  []ToolCall
}

// ToolCall is a call of a tool: in a request one that was made, in a reply one that is asked for.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON, or not
}

// Prompt gives the text of the last user message, empty if there is none.
func (r Request) Prompt() string {
	for _, v := range slices.Backward(r.Messages) {
		if v.Role == "user" {
			return v.Content
		}
	}
	return ""
}

// Reply is what the server is to answer.
type Reply struct {
	Text      string
	ToolCalls []ToolCall
	Delay     time.Duration // before the first byte
	Fault     string        // one of the package's list, empty for none
	Param     string        // the fault's parameter
}

// Server is the stub: an http.Handler, safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	respond  func(Request) (Reply, bool)
	apiKey   string
	total    int
	active   int
	byPrompt map[string]int
	kept     []Request
}

// New makes a server that echoes and follows directives.
func New() *Server { return &Server{byPrompt: make(map[string]int)} }

// Respond sets a function asked before the rules; false leaves the request to them.
func (s *Server) Respond(f func(Request) (Reply, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = f
}

// RequireKey makes the server refuse requests without this bearer key.
func (s *Server) RequireKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apiKey = key
}

// Count gives how many completions were asked for with this prompt as last user message, refused and cut ones included.
func (s *Server) Count(prompt string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPrompt[prompt]
}

// Total gives how many completions were asked for.
func (s *Server) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Active gives how many completions are being answered now.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// Requests gives the newest requests, at most 1,024, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.kept...)
}

// ServeHTTP answers POST …/chat/completions and GET …/models under any prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !s.authorized(r):
		writeError(w, http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.")
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.complete(w, r)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"stub","object":"model","created":0,"owned_by":"parley"}]}`)
	default:
		writeError(w, http.StatusNotFound, "invalid_request_error", "unknown_url", "Unknown request URL.")
	}
}

func (s *Server) authorized(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apiKey == "" || r.Header.Get("Authorization") == "Bearer "+s.apiKey
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "invalid_json", err.Error())
		return
	}
	nth, respond := s.enter(req)
	defer s.leave()

	reply, ok := Reply{}, false
	if respond != nil {
		reply, ok = respond(req)
	}
	if !ok {
		reply = byRule(req, nth)
	}
	if !wait(r, reply.Delay) {
		return
	}
	answer(w, r, req, reply)
}

func (s *Server) enter(req Request) (nth int, respond func(Request) (Reply, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	s.active++
	s.byPrompt[req.Prompt()]++
	if len(s.kept) == keptRequests {
		s.kept = append(s.kept[:0], s.kept[1:]...)
	}
	s.kept = append(s.kept, req)
	return s.byPrompt[req.Prompt()], s.respond
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
}

// wait waits for the delay; false means that the client left.
func wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

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

// contentText reads content in both of its forms: a text, or a list of parts.
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
