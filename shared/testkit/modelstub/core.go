package modelstub

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/shared/lifecycle"
)

// keptRequests is the maximum number of requests that are kept for inspection. Counts include
// requests that are no longer kept.
const keptRequests = 1024

// Core chooses replies and counts requests. It is safe for concurrent use.
type Core struct {
	mu       sync.Mutex
	respond  func(Request) (Reply, bool)
	script   []Reply
	apiKey   string
	total    int
	active   int
	byPrompt map[string]int
	kept     []Request
}

// NewCore returns a core that follows the directives in a message and echoes the message's text.
func NewCore() *Core { return &Core{byPrompt: make(map[string]int)} }

// Respond sets a function that is called before the script and the rules. If the function returns
// false, the script and the rules determine the reply.
func (c *Core) Respond(f func(Request) (Reply, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.respond = f
}

// Script adds replies, one for each of the next requests in order. After the last of these replies,
// the rules apply again.
func (c *Core) Script(replies ...Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script = append(c.script, replies...)
}

// RequireKey makes the server reject requests that do not contain this API key.
func (c *Core) RequireKey(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apiKey = key
}

// Allows reports whether a key is valid.
func (c *Core) Allows(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiKey == "" || key == c.apiKey
}

// Count returns the number of requests with this prompt as the last user message, including
// rejected and interrupted requests.
func (c *Core) Count(prompt string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byPrompt[prompt]
}

// Total returns the number of requests.
func (c *Core) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Active returns the number of requests in progress.
func (c *Core) Active() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// Requests returns the newest requests, at most keptRequests, oldest first.
func (c *Core) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Request(nil), c.kept...)
}

// Wire encodes replies in a provider's format.
type Wire interface {
	// Failure returns the status and the body of an error response. If status is 0, the response
	// reports the fault "context" or "quota"; otherwise it has the given status.
	Failure(status int, fault string) (int, []byte)
	// Answer writes a reply. It also executes faults in the middle of the reply.
	Answer(w http.ResponseWriter, r *http.Request, req Request, reply Reply)
}

// Serve handles a request that a provider's stub has parsed.
func (c *Core) Serve(w http.ResponseWriter, r *http.Request, req Request, wire Wire) {
	nth := c.enter(req)
	defer c.leave()
	reply := c.reply(req, nth)
	if !wait(r, reply.Delay) {
		return
	}
	if !before(w, r, reply, wire) {
		wire.Answer(w, r, req, reply)
	}
}

// reply returns the reply to a request. The function set by Respond takes precedence, then the next
// reply of the script, and then the rules.
func (c *Core) reply(req Request, nth int) Reply {
	c.mu.Lock()
	respond := c.respond
	c.mu.Unlock()
	if respond != nil {
		if reply, ok := respond(req); ok {
			return reply
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.script) > 0 {
		reply := c.script[0]
		c.script = c.script[1:]
		return reply
	}

	return byRule(req, nth)
}

func (c *Core) enter(req Request) (nth int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	c.active++
	c.byPrompt[req.Prompt()]++
	if len(c.kept) == keptRequests {
		c.kept = append(c.kept[:0], c.kept[1:]...)
	}
	c.kept = append(c.kept, req)
	return c.byPrompt[req.Prompt()]
}

func (c *Core) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
}

// before executes a fault that replaces the whole answer. It returns true if the reply had such a
// fault.
func before(w http.ResponseWriter, r *http.Request, reply Reply, wire Wire) bool {
	switch status, err := strconv.Atoi(reply.Fault); {
	case err == nil && status >= 400 && status <= 599:
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529 {
			if reply.Param == "" {
				reply.Param = "1"
			}
			w.Header().Set("Retry-After", reply.Param)
		}
		status, body := wire.Failure(status, reply.Fault)
		WriteJSON(w, status, body)
	case reply.Fault == "refuse":
		panic(http.ErrAbortHandler) // makes net/http close the connection without a response
	case reply.Fault == "hang":
		<-r.Context().Done()
	case reply.Fault == "context", reply.Fault == "quota":
		status, body := wire.Failure(0, reply.Fault)
		WriteJSON(w, status, body)
	case reply.Fault == "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
	default:
		return false
	}

	return true
}

// WriteJSON sends a response with a JSON body.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// StatusWords converts a status to the words that providers use in codes, for example
// "too_many_requests".
func StatusWords(status int) string {
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// Middle returns the number of pieces of an answer that are sent before a fault in the middle of
// the answer.
func Middle(pieces []string) int { return (len(pieces) + 1) / 2 }

// wait waits for the delay. It returns false if the client has disconnected.
func wait(r *http.Request, d time.Duration) bool {
	return d <= 0 || lifecycle.Sleep(r.Context(), d) == nil
}
