package openaiapi

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
)

// sessionMax is the maximum length of a session's id.
const sessionMax = 128 // characters

// Codes of invalid fields.
const (
	codeRequired     = "required"
	codeInvalidValue = "invalid_value"
	codeTooLong      = "too_long"
	codeTooShort     = "too_short"
	CodeUnsupported  = "unsupported_parameter" // CodeUnsupported is the code for parameters that agents do not support.
)

// Wrong records an invalid field of a request.
type Wrong func(field, code, message string, args ...any)

// Content is the content of a message: a text or parts.
type Content struct {
	Text  string
	Parts []Part
}

// Either marks Content as a union, which has one of its fields.
func (*Content) Either() {}

// Part is one part of a message's content.
type Part struct {
	Type    string  `json:"type" required:"true"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`
}

// partKinds are the types of parts that contain text, in either API.
var partKinds = map[string]func(Part) *string{
	"text":        func(p Part) *string { return p.Text },
	"input_text":  func(p Part) *string { return p.Text },
	"output_text": func(p Part) *string { return p.Text },
	"refusal":     func(p Part) *string { return p.Refusal },
}

// Read returns the text of the content, with one line for each part. field is the name of the
// content in errors. Missing content has an empty text.
func (c *Content) Read(field string, wrong Wrong) string {
	switch {
	case c == nil:
		return ""
	case c.Parts == nil:
		return c.Text
	}
	texts := make([]string, 0, len(c.Parts))
	for i, part := range c.Parts {
		at := index(field, i)
		text, known := partKinds[part.Type]
		switch {
		case !known:
			wrong(at+".type", CodeUnsupported, "only text is supported, not %s", part.Type)
		case text(part) == nil:
			wrong(at+".text", codeRequired, "is required for a part of this type")
		default:
			texts = append(texts, *text(part))
		}
	}
	return strings.Join(texts, "\n")
}

// Message is an entry of a request's messages.
type Message struct {
	Role         string             `json:"role" required:"true"`
	Content      *Content           `json:"content"`
	ToolCalls    *[]json.RawMessage `json:"tool_calls"`
	FunctionCall *json.RawMessage   `json:"function_call"`
}

// Roles of messages.
const (
	RoleSystem    = "system"
	RoleDeveloper = "developer"
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Said is a parsed message: its role, its text, and its field in the request. If the request refers
// to an earlier answer instead of containing it, RunID is the answer's run, and Text is empty.
type Said struct {
	Field string
	Role  string
	Text  string
	RunID string
}

// Read parses messages. list is the path of the messages' field in errors.
func Read(messages []Message, list string, wrong Wrong) []Said {
	said := make([]Said, 0, len(messages))
	for i, m := range messages {
		at := index(list, i)
		switch m.Role {
		case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant:
		// Such messages answer calls of the caller's tools, which agents do not make.
		case "tool", "function":
			wrong(at+".role", CodeUnsupported, "tool results are not supported: agents call their own tools")
			continue
		default:
			wrong(at+".role", codeInvalidValue, "must be system, developer, user or assistant")
			continue
		}
		if m.ToolCalls != nil && len(*m.ToolCalls) > 0 {
			wrong(at+".tool_calls", CodeUnsupported, "tools of the caller are not supported: agents call their own tools")
		}
		if m.FunctionCall != nil {
			wrong(at+".function_call", CodeUnsupported, "tools of the caller are not supported: agents call their own tools")
		}
		said = append(said, Said{Field: at + ".content", Role: m.Role, Text: m.Content.Read(at+".content", wrong)})
	}
	return said
}

// Conversation is the content of a request: the message, the messages before it, and instructions
// in addition to the agent's own.
type Conversation struct {
	Message      string
	History      []domain.Exchange
	Instructions string
}

// Converse builds a conversation from messages; list is the path of the messages' field in errors.
func Converse(said []Said, list string, wrong Wrong) Conversation {
	var out Conversation
	var messages, instructions []Said
	for _, s := range said {
		if s.Role == RoleAssistant {
			// Clients send earlier answers back as they received them.
			s.Text = withoutAppendix(s.Text)
		}
		switch {
		case s.Role == RoleSystem || s.Role == RoleDeveloper:
			instructions = append(instructions, s)
		case s.Text == "" && s.RunID == "" || len(messages) == 0 && s.Role == RoleAssistant: // empty, or an answer without a question
		default:
			messages = append(messages, s)
		}
	}
	out.Instructions = oneText(instructions)

	// Agents need alternating questions and answers.
	talk := turns(messages)
	if len(talk) == 0 || talk[len(talk)-1].Role != RoleUser {
		wrong(list, codeInvalidValue, "the last message must be the user's, and not empty")
		return out
	}
	out.Message = talk[len(talk)-1].Text
	out.History = exchanges(talk[:len(talk)-1])
	return out
}

// turns joins consecutive messages of the same role. It runs in linear time, because a body may
// have tens of thousands of messages.
func turns(messages []Said) []Said {
	var out []Said
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].Role == messages[0].Role {
			n++
		}
		out = append(out, Said{Field: messages[n-1].Field, Role: messages[0].Role, Text: oneText(messages[:n])})
		messages = messages[n:]
	}
	return out
}

// oneText joins messages, with empty lines between them.
func oneText(said []Said) string {
	texts := make([]string, 0, len(said))
	for _, s := range said {
		if s.Text != "" {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// exchanges pairs questions with answers.
func exchanges(talk []Said) []domain.Exchange {
	var out []domain.Exchange
	for i := 0; i+1 < len(talk); i += 2 {
		out = append(out, domain.Exchange{Message: talk[i].Text, Answer: talk[i+1].Text})
	}
	return out
}

// CheckSession validates the session id in a field of the request.
func CheckSession(sessionID, field string, wrong Wrong) {
	switch n, fault := utf8.RuneCountInString(sessionID), domain.NameFault(sessionID); {
	case n == 0:
		wrong(field, codeTooShort, "must not be empty")
	case n > sessionMax:
		wrong(field, codeTooLong, "must have at most %d characters, not %d", sessionMax, n)
	case fault != "":
		wrong(field, codeInvalidValue, "%s", fault)
	}
}
