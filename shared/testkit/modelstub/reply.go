package modelstub

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Request contains the parts of a client's request on which replies depend.
type Request struct {
	Model    string
	Stream   bool
	System   string // system prompt, for providers that separate it from the messages
	Messages []Message
	Tools    []string          // the tools' names, in order
	Body     json.RawMessage   // the complete body
	Header   map[string]string // first value of each header, by canonical name
}

// Message is one message of a request. A tool's result is a separate message with the role "tool".
type Message struct {
	Role       string
	Content    string // text parts of the message, joined
	ToolCallID string
	ToolCalls  []ToolCall
}

// ToolCall is a tool call: in a request, a call that the model made earlier; in a reply, a call
// that the model makes.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // valid JSON or not
}

// Prompt returns the text of the last user message, or "" if there is none.
func (r Request) Prompt() string {
	for _, v := range slices.Backward(r.Messages) {
		if v.Role == "user" {
			return v.Content
		}
	}
	return ""
}

// Result returns the tool result at the end of the request, or "" if there is none.
func (r Request) Result() string {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "tool" {
		return r.Messages[n-1].Content
	}
	return ""
}

// Reply is the reply that the server should send.
type Reply struct {
	Text      string
	Deltas    []string // the pieces of a streamed answer, in place of Text
	ToolCalls []ToolCall
	Delay     time.Duration // before the first byte
	Fault     string        // one of the faults in the package comment, or empty
	Param     string        // parameter of the fault
}

// Whole returns the answer's text.
func (r Reply) Whole() string {
	if len(r.Deltas) > 0 {
		return strings.Join(r.Deltas, "")
	}
	return r.Text
}

// Pieces returns the pieces in which the answer's text is streamed: Deltas, if set, and otherwise
// single words, each with the space before it, similar to a model's tokens.
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

// ArgumentPieces splits arguments into the pieces in which they are streamed, about six bytes each,
// at character boundaries. If cut > 0, the pieces end after that number of bytes.
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

// Words counts the whitespace-separated words of a request and of a reply. The stubs report them as
// tokens.
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
