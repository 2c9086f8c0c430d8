package openaiapi

import (
	"encoding/json"
	"slices"

	"parley/shared/domain"
)

// ResponseBody is the body of POST /v1/responses. Fields that it does not list are ignored; see
// docs/openai.md. Pointers distinguish a missing field from its zero value. Package httpx decodes
// the body.
type ResponseBody struct {
	Model        string             `json:"model" required:"true"`
	Input        *ResponseInput     `json:"input"`
	Instructions *string            `json:"instructions"`
	Stream       *bool              `json:"stream"`
	Background   *bool              `json:"background"`
	Store        *bool              `json:"store"`
	Metadata     *map[string]string `json:"metadata"`
	Conversation *ConversationName  `json:"conversation"`
	Previous     *string            `json:"previous_response_id"`
	Tools        *[]FunctionTool    `json:"tools"`
	ToolChoice   *json.RawMessage   `json:"tool_choice"`
	Text         *TextOptions       `json:"text"`
	TopLogprobs  *int64             `json:"top_logprobs"`
	Prompt       *json.RawMessage   `json:"prompt"`
	ResponseSettings
}

// ResponseInput is the input of a request. It is either a text or a list of items. Items is nil for
// a text. The decoder creates it from JSON.
type ResponseInput struct {
	Text  string
	Items []InputItem
}

// Either marks ResponseInput as a union, of which exactly one field is set.
func (ResponseInput) Either() {}

// InputItem is an entry of an input. An item without a type is a message. Type determines which of
// the other fields are used.
type InputItem struct {
	Type    *string  `json:"type"`
	ID      *string  `json:"id"`
	Role    *string  `json:"role"`
	Content *Content `json:"content"`

	// These fields are set in calls of the client's tools and in their results.
	CallID    *string  `json:"call_id"`
	Name      *string  `json:"name"`
	Arguments *string  `json:"arguments"`
	Output    *Content `json:"output"`
}

// ConversationName identifies a conversation, either by its id or by an object that contains the
// id. Exactly one of the two fields is set.
type ConversationName struct {
	Name   string
	Object struct {
		ID string `json:"id" required:"true"`
	}
}

// Either marks ConversationName as a union, of which exactly one field is set.
func (ConversationName) Either() {}

// TextOptions are the options for the text of the answer.
type TextOptions struct {
	Format *TextFormat `json:"format"`
}

// ignoredItems lists the types of items that are ignored. Clients send such items back with earlier
// responses, but the session already contains the items, or the agent does not need them.
var ignoredItems = map[string]bool{
	typeWebSearch: true, typeCode: true, typeFileSearch: true, typeMCP: true, "mcp_list_tools": true, "reasoning": true, "compaction": true,
}

// ResponseAsk is a parsed request for a response. ParseResponse creates it. If References is not
// empty, the caller must call Resolve before it uses the conversation.
type ResponseAsk struct {
	Conversation

	Model     string
	SessionID string // id of the session that the request names; empty: none
	Previous  string // run of the previous response; the new run continues its session; empty: none
	Stream    bool
	Echo      ResponseEcho
	Settings  *domain.RunSettings       // model settings in the request; nil: none
	Names     map[domain.Setting]string // names of the settings in the request
	Output    AskedOutput               // schema that the answer must match

	// WholeHistory is set if the request names the session in its metadata. The history in the
	// request then replaces that of the session. If the request names the session in the protocol's
	// own fields, the history in the request is added to that of the session.
	WholeHistory bool
	References   []Reference // items that the request refers to by id

	said []Said // messages for Resolve; set only if there are references
}

// Reference is a reference to an item of an earlier response.
type Reference struct {
	Field string // path of the id in the request
	RunID string // run of the response that contains the item
}

// ParseResponse validates the body of a request for a response. It reports all problems to the
// function wrong. If there are problems, the result must not be used. The caller checks whether the
// session and the earlier items exist.
func ParseResponse(body *ResponseBody, wrong Wrong) ResponseAsk {
	ask := ResponseAsk{
		Model: body.Model, Stream: value(body.Stream),
		Echo: ResponseEcho{
			Background: value(body.Background), Unstored: body.Store != nil && !*body.Store,
			Instructions: deref(body.Instructions), Metadata: value(body.Metadata),
			PreviousResponseID: deref(body.Previous),
		},
	}
	ask.nameSession(body, wrong)
	checkMetadata(ask.Echo.Metadata, wrong)
	ask.Echo.View.AppendSources = appendSources(ask.Echo.Metadata, wrong)
	body.refuse(wrong)

	// The settings are stored as the client sent them, so that the response can repeat them.
	if ask.Settings, ask.Names = body.Settings(wrong); ask.Settings != nil {
		ask.Echo.Settings = &ask.Settings.ModelSettings
	}
	ask.Echo.ClientTools, ask.Echo.Strict = readTools(body.Tools, body.ToolChoice, "", wrong), strictTools(body.Tools)
	if body.Text != nil {
		ask.Output, ask.Echo.Format = body.Text.Format.asked("text.format", wrong), body.Text.Format.echo()
	}

	// The field instructions comes first, so that it precedes the instructions in the input.
	said, references := inputMessages(body.Input, wrong)
	if ask.Echo.Instructions != "" {
		said = append([]Said{{Field: "instructions", Role: RoleSystem, Text: ask.Echo.Instructions}}, said...)
	}
	ask.Conversation, ask.References = Converse(said, "input", wrong), references
	if len(references) > 0 {
		ask.said = said
	}
	return ask
}

// Resolve replaces the references to answers with the texts that the function answer returns. If
// answer returns false for keep, the messages up to the referenced answer are dropped, because the
// session already contains them or they are too old. The function answer is called once for each
// referenced answer, in their order. System and developer messages are always kept.
func (ask *ResponseAsk) Resolve(answer func(runID string) (text string, keep bool)) {
	said := make([]Said, 0, len(ask.said))
	for _, s := range ask.said {
		if s.RunID == "" {
			said = append(said, s)
			continue
		}
		if text, keep := answer(s.RunID); keep {
			said = append(said, Said{Field: s.Field, Role: s.Role, Text: text})
			continue
		}
		said = slices.DeleteFunc(said, func(s Said) bool { return s.Role != RoleSystem && s.Role != RoleDeveloper })
	}
	ask.Conversation, ask.said = Converse(said, "input", func(string, string, string, ...any) {}), nil // the messages were validated before
}

// nameSession determines the session of a request. If the request names several sessions, the first
// one is used. The order is conversation, previous_response_id, metadata.session_id. Without any of
// them, the request begins a new session.
func (ask *ResponseAsk) nameSession(body *ResponseBody, wrong Wrong) {
	named, inMetadata := ask.Echo.Metadata[sessionName]
	switch {
	case body.Conversation != nil && body.Conversation.Name == "" && body.Conversation.Object.ID != "":
		ask.name(body.Conversation.Object.ID, "conversation.id", wrong)
	case body.Conversation != nil:
		ask.name(body.Conversation.Name, "conversation", wrong)
	case body.Previous != nil:
		previous, ok := RunOfResponse(*body.Previous)
		if !ok {
			wrong("previous_response_id", CodeNoPrevious, "%s", NoPrevious)
		}
		ask.Previous = previous
	case inMetadata:
		ask.name(named, "metadata.session_id", wrong)
		ask.WholeHistory = true
	}
}

// name checks a session id and stores it.
func (ask *ResponseAsk) name(sessionID, field string, wrong Wrong) {
	CheckSession(sessionID, field, wrong)
	ask.SessionID = sessionID
}

// NoItem is the error message for an item id that the caller has not received in a response.
const NoItem = "no item with this id exists for this caller; send the message itself instead of its id"

// NoPrevious is the error message for the id of a response that cannot be continued.
const NoPrevious = "no response with this id exists for this model and caller"

// refuse adds a problem for each parameter that agents do not support. It also rejects a background
// response that is not stored.
func (body *ResponseBody) refuse(wrong Wrong) {
	if value(body.TopLogprobs) > 0 {
		wrong("top_logprobs", CodeUnsupported, "is not supported: agents do not return log probabilities")
	}
	// A background response is read later by its id, so it must be stored.
	if value(body.Background) && body.Store != nil && !*body.Store {
		wrong("store", codeInvalidValue, "must not be false with background, because the response could not be retrieved")
	}
	if body.Prompt != nil {
		wrong("prompt", CodeUnsupported, "is not supported: use an agent as model instead")
	}
}

// inputMessages returns the messages of an input, and its references to earlier items. Both results
// have the order of the input. Invalid items are omitted and reported to the function wrong.
func inputMessages(input *ResponseInput, wrong Wrong) (said []Said, references []Reference) {
	switch {
	case input == nil:
		return nil, nil
	case input.Items == nil:
		return []Said{{Field: "input", Role: RoleUser, Text: input.Text}}, nil
	}
	said = make([]Said, 0, len(input.Items))
	for i := range input.Items {
		item, at := &input.Items[i], index("input", i)
		switch kind := deref(item.Type); {
		// Ignored items, such as reasoning, still separate the texts before them from the texts
		// after them.
		case ignoredItems[kind]:
		case kind == typeReference || kind == "" && item.Role == nil && item.ID != nil:
			said, references = item.reference(at+".id", said, references, wrong)
		case kind == typeCall || kind == typeOutput:
			said = append(said, item.callOrResult(at, wrong)...)
		case !item.isMessage():
			wrong(at+".type", CodeUnsupported, "is not supported: agents call only their own tools and functions of the client")
		case item.Role == nil:
			wrong(at+".role", codeRequired, "is required for a message")
		default:
			said = append(said, item.message(at, wrong)...)
		}
	}
	return said, references
}

// isMessage reports whether the item is a message. The role of a message may be missing.
func (item *InputItem) isMessage() bool {
	kind := deref(item.Type)
	return kind == typeMessage || kind == "" && item.Role != nil
}

// reference records that an item refers to an item of an earlier response. If that earlier item is
// a message or a call, reference also adds an entry to the list said. The text of the referenced
// message is unknown here. Resolve adds it later.
func (item *InputItem) reference(field string, said []Said, references []Reference, wrong Wrong) ([]Said, []Reference) {
	runID, message, issued := runOfItem(deref(item.ID))
	if !issued {
		wrong(field, CodeNoItem, "%s", NoItem)
		return said, references
	}
	if message {
		said = append(said, Said{Field: field, Role: RoleAssistant, RunID: runID})
	}
	if callID, ok := callOfFunction(*item.ID); ok { // the name and the arguments of the call are read from its run later
		said = append(said, Said{Field: field, Role: RoleAssistant, Calls: []domain.ClientCall{{ToolCallID: callID}}})
	}
	return said, append(references, Reference{field, runID})
}

// callOrResult returns a call of a client's tool, or the result of such a call. The call to which a
// result belongs may be in an earlier response, so the result's field Outside is set. After an
// error the result may be empty.
func (item *InputItem) callOrResult(at string, wrong Wrong) []Said {
	switch {
	case item.CallID == nil:
		wrong(at+".call_id", codeRequired, "is required for a call and its result")
		return nil
	case *item.Type == typeOutput:
		text := item.Output.Read(at+".output", wrong)
		return []Said{{Field: at + ".call_id", Role: RoleTool, Result: newResult(*item.CallID, text), Outside: true}}
	case item.Name == nil:
		wrong(at+".name", codeRequired, "is required for a call")
	}
	call := newCall(*item.CallID, deref(item.Name), deref(item.Arguments), at+".call_id", wrong)
	return []Said{{Field: at + ".call_id", Role: RoleAssistant, Calls: []domain.ClientCall{call}}}
}

// message returns the message in an item. It omits an item with an unknown role, and calls wrong to
// report the role.
func (item *InputItem) message(at string, wrong Wrong) []Said {
	switch *item.Role {
	case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant:
		return []Said{{Field: at + ".content", Role: *item.Role, Text: item.Content.Read(at+".content", wrong), Files: item.Content.attached()}}
	}
	wrong(at+".role", codeInvalidValue, "must be system, developer, user or assistant")
	return nil
}

// value returns the value that p points to, or the zero value for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
