package openaiapi

import (
	"cmp"
	"encoding/json"
	"net/url"

	"parley/shared/domain"
	"parley/shared/id"
)

// CompletionRequest is the body of POST /v1/chat/completions. Fields that it does not list are
// ignored. Pointers distinguish a missing field from its zero value. Package httpx decodes the body
// and reports missing required fields.
type CompletionRequest struct {
	Model          string              `json:"model" required:"true"`
	Messages       []Message           `json:"messages" required:"true"`
	Stream         *bool               `json:"stream"`
	StreamOptions  *StreamOptions      `json:"stream_options"`
	Metadata       *map[string]*string `json:"metadata"`
	N              *int64              `json:"n"`
	Tools          *[]FunctionTool     `json:"tools"`
	ToolChoice     *json.RawMessage    `json:"tool_choice"`
	Functions      *[]json.RawMessage  `json:"functions"`
	FunctionCall   *json.RawMessage    `json:"function_call"`
	ResponseFormat *Format             `json:"response_format"`
	Logprobs       *bool               `json:"logprobs"`
	// The settings are embedded, so their fields are fields of the body.
	CompletionSettings
	Audio      *json.RawMessage `json:"audio"`
	Modalities *[]string        `json:"modalities"`

	// AppendSources says whether the client wants a list of sources after the answer. Conversation
	// sets it. If it is nil, the agent's setting applies.
	AppendSources *bool
	// Output is the schema that the answer must match. Conversation sets it.
	Output AskedOutput
}

// StreamOptions are the options of a stream.
type StreamOptions struct {
	// Whether the last chunk contains the token usage; nil: false.
	IncludeUsage *bool `json:"include_usage"`
}

// Streamed reports whether the client requests a stream.
func (r *CompletionRequest) Streamed() bool { return r.Stream != nil && *r.Stream }

// WantsUsage reports whether the client wants the token usage at the end of the stream.
func (r *CompletionRequest) WantsUsage() bool {
	return r.StreamOptions != nil && r.StreamOptions.IncludeUsage != nil && *r.StreamOptions.IncludeUsage
}

// Session returns the id of the session that the request names, or "" if it names none.
func (r *CompletionRequest) Session() string {
	return deref(value(r.Metadata)[sessionName])
}

// Conversation validates the request and returns the conversation that it contains. It reports all
// problems to the function wrong. The result is usable only if there are no problems. As a side
// effect it sets AppendSources and Output.
func (r *CompletionRequest) Conversation(wrong Wrong) Conversation {
	r.refuse(wrong)
	metadata := map[string]string{}
	for name, text := range value(r.Metadata) {
		// A null value is stored as an empty text.
		metadata[name] = deref(text)
	}
	if value(r.Metadata)[sessionName] != nil {
		CheckSession(metadata[sessionName], "metadata.session_id", wrong)
	}
	checkMetadata(metadata, wrong)
	r.AppendSources = appendSources(metadata, wrong)
	r.Output = r.ResponseFormat.asked("response_format", wrong)
	return Converse(Read(r.Messages, "messages", wrong), "messages", wrong)
}

// refuse adds a problem for each parameter that agents do not support. The error code is
// CodeUnsupported.
func (r *CompletionRequest) refuse(wrong Wrong) {
	unsupported := func(asked bool, field, message string) {
		if asked {
			wrong(field, CodeUnsupported, "%s", message)
		}
	}
	// A parameter with a neutral value is accepted, because many clients always send such
	// parameters.
	unsupported(r.N != nil && *r.N != 1, "n", "must be 1: a run has one answer")
	unsupported(r.Functions != nil && len(*r.Functions) > 0, "functions", "is not supported: use tools")
	unsupported(chooses(r.FunctionCall), "function_call", "is not supported: use tool_choice")
	unsupported(r.Logprobs != nil && *r.Logprobs, "logprobs", "is not supported: agents do not return log probabilities")
	unsupported(r.Audio != nil, "audio", "is not supported: agents answer in text")
	if r.Modalities != nil {
		for _, m := range *r.Modalities {
			unsupported(m != "text", "modalities", "must be text: agents answer in text")
		}
	}
}

// ClientTools returns the tools that the client offers in the request, or nil if it offers none. It
// does not check their names and schemas. The caller checks them together with the tools of the
// agent, because names must not collide.
func (r *CompletionRequest) ClientTools(wrong Wrong) *domain.ClientTools {
	return readTools(r.Tools, r.ToolChoice, CompletionFunction, wrong)
}

// CompletionFunction is appended to the path of a tool in errors. The result is the path of the
// tool's function object.
const CompletionFunction = ".function"

// chooses reports whether the value of tool_choice or function_call requires that the model calls a
// function. Every value other than "none" and "auto" counts as such a requirement, also an object.
func chooses(choice *json.RawMessage) bool {
	return choice != nil && string(*choice) != `"none"` && string(*choice) != `"auto"`
}

// Completion is a completed run in the form of a chat completion. NewCompletion creates it. Created
// is in seconds since 1970.
type Completion struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"` // always the text "chat.completion"
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Choices []Choice    `json:"choices"`
	Usage   TokenCounts `json:"usage"`
	Parley  RunNames    `json:"parley"`
}

// Choice is the only choice of a completion: the agent's answer. Index is always 0, and Logprobs is
// always null.
type Choice struct {
	Index        int           `json:"index"`
	Message      AnswerMessage `json:"message"`
	Logprobs     *struct{}     `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

// AnswerMessage is an answer in the form of a message. Role is always assistant, and Refusal is
// always null. Annotations is an empty list if the answer has no citations.
type AnswerMessage struct {
	Role        string       `json:"role"`
	Content     *string      `json:"content"` // null if the answer consists only of calls
	Refusal     *string      `json:"refusal"`
	Annotations []Annotation `json:"annotations"`

	ToolCalls []CompletionCall `json:"tool_calls,omitempty"`
}

// Annotation is a citation of a page, a document or a file. All citations have the type for URLs,
// because clients of this API reject any other type. For a document, the additional field
// FileCitation repeats the citation in the form of the Responses API.
type Annotation struct {
	Type         string        `json:"type"`
	URLCitation  URLCitation   `json:"url_citation"`
	FileCitation *FileCitation `json:"file_citation,omitempty"`
}

// URLCitation identifies the part of the answer that a page or document supports. The indexes count
// the code points of the answer. EndIndex is the position after the part.
type URLCitation struct {
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
	Title      string `json:"title"`
	URL        string `json:"url"`
}

// FileCitation identifies the part of the answer that a document supports. FileID is the id of the
// document, or of its stored text.
type FileCitation struct {
	FileID     string `json:"file_id"`
	Filename   string `json:"filename"`
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
}

// TokenCounts is the token usage of a run. Total is the sum of the other two.
type TokenCounts struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// RunNames identifies a run and its session. Its fields are an addition to the protocol. Clients
// need the run id for Parley's own API, for example to decide about a tool call.
type RunNames struct {
	RunID     string `json:"runId"`
	SessionID string `json:"sessionId"`
}

// NewCompletion renders a completed run. The run must have the status completed; Unanswered renders
// other runs.
func NewCompletion(run *domain.Run, view View) Completion {
	answer := view.answer(run)
	message := AnswerMessage{
		Role: RoleAssistant, Content: &answer.text, Annotations: view.annotations(run, answer), ToolCalls: completionCalls(run),
	}
	if answer.text == "" && len(message.ToolCalls) > 0 {
		message.Content = nil
	}
	return Completion{
		ID: completionID(run.ID), Object: "chat.completion", Created: run.CreatedAt.Unix(), Model: modelFor(run),
		Choices: []Choice{{Message: message, FinishReason: finishReason(run)}},
		Usage:   tokenCounts(run.Usage),
		Parley:  RunNames{run.ID, run.SessionID},
	}
}

// finishReason returns the protocol's reason why a completed run's answer ended. If the run has no
// reason, the result is stop.
func finishReason(run *domain.Run) string {
	if run.FinishReason != nil {
		return string(*run.FinishReason) // the protocol has the same names for the reasons
	}
	return string(domain.FinishStop)
}

// completionID returns the id of the completion that a run produces. It is the same for every
// rendering of the run, so a retried request returns the same id.
func completionID(runID string) string { return "chatcmpl-" + id.Suffix(runID) }

// tokenCounts converts the token usage of a run to the form of chat completions.
func tokenCounts(u domain.Usage) TokenCounts {
	return TokenCounts{u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}
}

// annotations returns the citations of an answer, and a citation for each file that the run's
// programs created. The result is never nil, because clients reject null. Indexes count the code
// points of the text with its appendix.
func (v View) annotations(run *domain.Run, answer shownAnswer) []Annotation {
	out := make([]Annotation, 0, len(run.Citations)+len(answer.files))
	for _, c := range run.Citations {
		fileID := citedFile(c)
		if fileID == "" && c.URL == "" {
			continue // clients reject an annotation without a URL
		}
		a := urlCitation(c.StartIndex, c.EndIndex, cmp.Or(c.Title, c.URL), c.URL)
		// The address of a document is a path of this service. Clients need a complete URL. An
		// attached document has no address of its own, but its stored text has one.
		if fileID != "" {
			a.URLCitation.URL = v.BaseURL + cmp.Or(c.URL, "/api/sources?id="+url.QueryEscape(fileID))
			a.FileCitation = &FileCitation{fileID, c.Title, c.StartIndex, c.EndIndex}
		}
		out = append(out, a)
	}
	for _, f := range answer.files {
		if f.url != "" {
			out = append(out, urlCitation(f.start, f.end, f.Name, f.url))
		}
	}
	return out
}

// urlCitation returns a citation with a URL.
func urlCitation(start, end int, title, address string) Annotation {
	return Annotation{Type: "url_citation", URLCitation: URLCitation{start, end, title, address}}
}
