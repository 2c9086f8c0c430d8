package openaiapi

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
)

// maxSession is the maximum length of a session id, in characters.
const maxSession = 128 // characters

// These constants are the codes of invalid fields.
const (
	codeRequired     = "required"
	codeInvalidValue = "invalid_value"
	codeTooLong      = "too_long"
	codeTooShort     = "too_short"
	CodeUnsupported  = "unsupported_parameter" // CodeUnsupported is the code for parameters that agents do not support.
)

// Wrong is the type of a function that records an invalid field of a request. The first argument is
// the path of the field, such as "messages[2].content". The function may be called several times;
// one response contains all recorded errors.
type Wrong func(field, code, message string, args ...any)

// Content is the content of a message. It is either a text or a list of parts. Parts is nil for a
// text. The decoder creates it from JSON.
type Content struct {
	Text  string
	Parts []Part
}

// Either marks Content as a union, of which exactly one field is set.
func (*Content) Either() {}

// Part is one part of a message's content. Type determines which of the other fields are used.
type Part struct {
	// The value text, input_text, output_text or refusal, or a type of attachment.
	Type    string  `json:"type" required:"true"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`

	// ImageURL occurs in both APIs. File occurs only in chat completions, and the other fields
	// occur only in responses.
	ImageURL *json.RawMessage `json:"image_url"`
	File     *FilePart        `json:"file"`
	FileData *string          `json:"file_data"`
	FileURL  *string          `json:"file_url"`
	FileID   *string          `json:"file_id"`
	FileName *string          `json:"filename"`
}

// partKinds maps each type of part that contains text, in either of OpenAI's APIs, to the function
// that returns its text.
var partKinds = map[string]func(Part) *string{
	"text":        func(p Part) *string { return p.Text },
	"input_text":  func(p Part) *string { return p.Text },
	"output_text": func(p Part) *string { return p.Text },
	"refusal":     func(p Part) *string { return p.Refusal },
}

// Read returns the text of the content, with one line for each part. The argument field is the path
// of the content in errors. Without content, the text is empty. Read omits images and files. It
// also omits invalid parts, and reports them to the function wrong.
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
		case part.attached(): // these parts are read by Attachments
		case !known:
			wrong(at+".type", CodeUnsupported, "only text, images and files are supported, not %s", part.Type)
		case text(part) == nil:
			wrong(at+".text", codeRequired, "is required for a part of this type")
		default:
			texts = append(texts, *text(part))
		}
	}
	return strings.Join(texts, "\n")
}

// attached reports whether the content contains images or files.
func (c *Content) attached() bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p Part) bool { return p.attached() })
}

// Message is an entry of a request's messages. Calls and results of the client's tools are
// messages, too.
type Message struct {
	Role    string   `json:"role" required:"true"`
	Content *Content `json:"content"`
	// Calls in a message of the assistant.
	ToolCalls *[]MessageCall `json:"tool_calls"`
	// ID of the call to which a message of a tool belongs.
	ToolCallID   *string          `json:"tool_call_id"`
	FunctionCall *json.RawMessage `json:"function_call"`
}

// These constants are the roles of messages.
const (
	RoleSystem    = "system"
	RoleDeveloper = "developer"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Said is a parsed message with its role, its text and its path in the request. If the message is a
// reference to an earlier answer, RunID is that answer's run and Text is empty. Read and
// inputMessages create it, and talk.add consumes it.
type Said struct {
	// Path for errors.
	Field string
	// One of the Role constants.
	Role string
	// Text of all parts; empty if there are only files or calls.
	Text string
	// Run of an earlier answer; empty: the message itself is in the request.
	RunID string
	Files bool // whether the message has images or files

	Calls   []domain.ClientCall  // calls of the client's tools, in a message of the assistant
	Result  *domain.ClientResult // result of a call, in a message of a tool
	Outside bool                 // whether the call to which Result belongs may be missing from the request
}

// Read parses a list of messages. The argument list is the path of the list in errors. Read reports
// invalid messages to the function wrong. It omits a message with an invalid role, and a message
// with the role tool that names no call.
func Read(messages []Message, list string, wrong Wrong) []Said {
	said := make([]Said, 0, len(messages))
	for i, m := range messages {
		at := index(list, i)
		switch m.Role {
		case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant:
		case RoleTool:
			if m.ToolCallID == nil {
				wrong(at+".tool_call_id", codeRequired, "is required for the role tool")
				continue
			}
			text := m.Content.Read(at+".content", wrong)
			said = append(said, Said{Field: at + ".tool_call_id", Role: RoleTool, Result: newResult(*m.ToolCallID, text)})
			continue
		case "function":
			wrong(at+".role", CodeUnsupported, "is not supported: use tools, and messages with the role tool")
			continue
		default:
			wrong(at+".role", codeInvalidValue, "must be system, developer, user, assistant or tool")
			continue
		}
		if m.FunctionCall != nil {
			wrong(at+".function_call", CodeUnsupported, "is not supported: use tool_calls")
		}
		one := Said{Field: at + ".content", Role: m.Role, Text: m.Content.Read(at+".content", wrong), Files: m.Content.attached()}
		if calls := value(m.ToolCalls); len(calls) > 0 {
			// Later errors about this message concern its calls.
			one.Field, one.Calls = at+".tool_calls", readCalls(calls, at+".tool_calls", wrong)
			if m.Role != RoleAssistant {
				wrong(at+".tool_calls", codeInvalidValue, "is allowed only in assistant messages")
			}
		}
		said = append(said, one)
	}
	return said
}

// Conversation is the content of a request: the message to answer, the earlier messages, and
// instructions in addition to the agent's own. Message is empty if the last message has only images
// or files.
type Conversation struct {
	// Text of the last user messages.
	Message string
	// Earlier exchanges, the oldest first.
	History []domain.Exchange
	// Texts of the system and developer messages; empty: none.
	Instructions string

	Results []Result // results of calls that are not in the request but in an earlier response
}

// Converse builds a conversation from messages. The argument list is the path of the list of
// messages in errors. System and developer messages may be anywhere; they become instructions in
// their order. If the last message cannot be answered, Converse reports an error and returns only
// the instructions.
func Converse(said []Said, list string, wrong Wrong) Conversation {
	var out Conversation
	var instructions []Said
	t := talk{wrong: wrong}
	for _, s := range said {
		if s.Role == RoleAssistant {
			// Clients send earlier answers back in the form in which they received them, including
			// the appended list of sources.
			s.Text = withoutAppendix(s.Text)
		}
		switch {
		case s.Role == RoleSystem || s.Role == RoleDeveloper:
			instructions = append(instructions, s)
		case s.Text == "" && s.RunID == "" && !s.Files && len(s.Calls) == 0 && s.Result == nil: // an empty message is ignored
		default:
			t.add(s)
		}
	}
	out.Instructions = oneText(instructions)
	message, history, ok := t.finish()
	if !ok {
		wrong(list, codeInvalidValue, "the last message must be a user message that is not empty, or the result of a call")
		return out
	}
	out.Message, out.History, out.Results = message, history, t.results
	return out
}

// oneText joins the texts of messages, with empty lines between them. Empty texts are omitted.
func oneText(said []Said) string {
	texts := make([]string, 0, len(said))
	for _, s := range said {
		if s.Text != "" {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// CheckSession validates a session id. The argument field is the path of the id in errors. A
// session id has 1 to maxSession characters. Characters that names may not contain are reported,
// too.
func CheckSession(sessionID, field string, wrong Wrong) {
	switch n, fault := utf8.RuneCountInString(sessionID), domain.NameFault(sessionID); {
	case n == 0:
		wrong(field, codeTooShort, "must not be empty")
	case n > maxSession:
		wrong(field, codeTooLong, "must have at most %d characters, not %d", maxSession, n)
	case fault != "":
		wrong(field, codeInvalidValue, "%s", fault)
	}
}
