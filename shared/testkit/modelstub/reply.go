package modelstub

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Request is what a client sent, as far as answers depend on it.
type Request struct {
	Model    string
	Stream   bool
	System   string // of providers that have it apart from the messages
	Messages []Message
	Tools    []string          // names, in order
	Body     json.RawMessage   // all of it
	Header   map[string]string // first values, by canonical name
}

// Message is one message of a request. Results of tools are messages of their own, with the role "tool".
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

// Result gives the text of a tool's result that the request ends with, empty if it does not.
func (r Request) Result() string {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "tool" {
		return r.Messages[n-1].Content
	}
	return ""
}

// Reply is what the server is to answer.
type Reply struct {
	Text      string
	Deltas    []string // the pieces that a streamed answer comes in, instead of Text
	ToolCalls []ToolCall
	Delay     time.Duration // before the first byte
	Fault     string        // one of the package's list, empty for none
	Param     string        // the fault's parameter
}

// Whole gives the answer's text.
func (r Reply) Whole() string {
	if len(r.Deltas) > 0 {
		return strings.Join(r.Deltas, "")
	}
	return r.Text
}

// Pieces gives the answer's text as it is streamed: as named, else as a model's tokens would split it, into words with
// the space before them.
func (r Reply) Pieces() []string {
	if len(r.Deltas) > 0 {
		return r.Deltas
	}
	var out []string
	text := r.Text
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

// ArgumentPieces gives arguments as they are streamed, in pieces of about six bytes and whole characters; cut > 0
// stops after so many bytes.
func ArgumentPieces(arguments string, cut int) []string {
	if cut > 0 {
		arguments = arguments[:min(cut, len(arguments))]
	}
	var out []string
	for len(arguments) > 0 {
		n := min(6, len(arguments))
		for n < len(arguments) && !utf8.RuneStart(arguments[n]) {
			n++
		}
		out = append(out, arguments[:n])
		arguments = arguments[n:]
	}
	return out
}

// Words counts whitespace-separated words, the stubs' tokens, of a request and of a reply.
func Words(req Request, reply Reply) (prompt, answer int) {
	prompt = len(strings.Fields(req.System))
	for _, m := range req.Messages {
		prompt += len(strings.Fields(m.Content))
	}
	answer = len(strings.Fields(reply.Whole()))
	for _, c := range reply.ToolCalls {
		answer += 1 + len(strings.Fields(c.Arguments))
	}
	return prompt, answer
}
