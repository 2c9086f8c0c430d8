package openaiapi

import (
	"cmp"
	"encoding/json"
	"fmt"

	"parley/shared/domain"
	"parley/shared/id"
)

// ResponsePrefix is the prefix of response ids. The rest of a response id is the suffix of its run's id.
const ResponsePrefix = "resp"

// ResponseStatus is the state of a response.
type ResponseStatus string

// The states of a response that a run can have.
const (
	ResponseQueued     ResponseStatus = "queued"
	ResponseInProgress ResponseStatus = "in_progress"
	ResponseCompleted  ResponseStatus = "completed"
	ResponseIncomplete ResponseStatus = "incomplete"
	ResponseFailed     ResponseStatus = "failed"
	ResponseCancelled  ResponseStatus = "cancelled"
)

// Response is a run in the form of a response object. Fields of the protocol that runs lack have
// their neutral values, because clients' types require these fields.
type Response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"` // response
	CreatedAt          int64             `json:"created_at"`
	CompletedAt        *int64            `json:"completed_at"`
	Status             ResponseStatus    `json:"status"`
	Background         bool              `json:"background"`
	Error              *ResponseError    `json:"error"`
	IncompleteDetails  *incompleteReason `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int64            `json:"max_output_tokens"`
	Metadata           map[string]string `json:"metadata"`
	Model              string            `json:"model"`
	Output             []Item            `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Reasoning          reasoning         `json:"reasoning"`
	Store              bool              `json:"store"`
	Temperature        *float64          `json:"temperature"`
	Text               textFormat        `json:"text"`
	ToolChoice         any               `json:"tool_choice"` // a text or an object
	Tools              []responseTool    `json:"tools"`       // of the client, in the response to the request
	TopP               *float64          `json:"top_p"`
	Truncation         string            `json:"truncation"`
	Usage              *ResponseUsage    `json:"usage"`
	Parley             RunNames          `json:"parley"`
}

// ResponseError is the reason why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ResponseUsage is the token usage of a response.
type ResponseUsage struct {
	InputTokens        int64         `json:"input_tokens"`
	InputTokensDetails inputDetails  `json:"input_tokens_details"`
	OutputTokens       int64         `json:"output_tokens"`
	OutputDetails      outputDetails `json:"output_tokens_details"`
	TotalTokens        int64         `json:"total_tokens"`
}

// incompleteReason is the reason why an answer ended early: max_output_tokens or content_filter.
type incompleteReason struct {
	Reason string `json:"reason"`
}

// incompleteDetails returns why a run's answer ended early, or nil if it did not.
func incompleteDetails(run *domain.Run) *incompleteReason {
	switch {
	case !run.Incomplete():
		return nil
	case *run.FinishReason == domain.FinishLength:
		return &incompleteReason{"max_output_tokens"}
	default:
		return &incompleteReason{string(*run.FinishReason)}
	}
}

// inputDetails describes the input tokens.
type inputDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// outputDetails describes the output tokens.
type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// reasoning contains the settings of a model's reasoning.
type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// textFormat contains the settings of the answer's text.
type textFormat struct {
	Format responseFormat `json:"format"`
}

// ResponseEcho has the request fields that responses repeat. Those with a JSON name are stored with
// the run, for responses that are read later by their ids.
type ResponseEcho struct {
	Background         bool                  `json:"background,omitempty"`
	Metadata           map[string]string     `json:"metadata,omitempty"`
	Format             *responseFormat       `json:"format,omitempty"` // nil: text
	Settings           *domain.ModelSettings `json:"settings,omitempty"`
	Instructions       string                `json:"-"`
	PreviousResponseID string                `json:"previous_response_id,omitempty"`
	Unstored           bool                  `json:"-"` // the response cannot be retrieved or continued
	View               View                  `json:"-"`

	ClientTools *domain.ClientTools `json:"-"`
}

// AppendSources returns the request's choice about a list of sources, which its metadata contains, or
// nil if it made none.
func (e ResponseEcho) AppendSources() *bool {
	return appendSources(e.Metadata, func(string, string, string, ...any) {}) // it was valid when it was stored
}

// Stored returns the JSON of the stored fields, or nil if they are empty.
func (e ResponseEcho) Stored() (json.RawMessage, error) {
	// Most runs have none of these fields, and then nothing is stored.
	if !e.Background && len(e.Metadata) == 0 && e.PreviousResponseID == "" && e.Format == nil && e.Settings == nil {
		return nil, nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("writing the response's fields: %w", err)
	}
	return b, nil
}

// ResponseID returns the id of a run's response.
func ResponseID(runID string) string { return ResponsePrefix + "_" + id.Suffix(runID) }

// RunOfResponse returns the id of a response's run, or false if the id is not that of a response.
func RunOfResponse(responseID string) (runID string, ok bool) {
	if !id.Valid(ResponsePrefix, responseID) {
		return "", false
	}
	return id.Run + "_" + id.Suffix(responseID), true
}

// NewResponse renders a run in its current state.
func NewResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := newResponse(run, echo)
	r.Status = statusFor(run)
	r.Output = items(run, echo.View)
	if run.Status.Terminal() {
		r.end(run)
	}
	return r
}

// newResponse returns the response for a run, with only the run's agent, session and time.
func newResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := &Response{
		ID: ResponseID(run.ID), Object: "response", CreatedAt: run.CreatedAt.Unix(), Status: ResponseInProgress,
		Background: echo.Background, Metadata: echo.Metadata, Model: modelFor(run), Output: []Item{}, ParallelToolCalls: true,
		Store: !echo.Unstored, Truncation: "disabled",
		Parley: RunNames{RunID: run.ID, SessionID: run.SessionID},
	}
	r.Tools, r.ToolChoice = shownTools(echo.ClientTools)
	r.Text.Format.Type = formatText
	if echo.Format != nil {
		r.Text.Format = *echo.Format
	}
	if r.showSettings(echo.Settings); run.Settings != nil { // with the agent's own, once the run has finished
		r.showSettings(run.Settings)
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	if echo.Instructions != "" {
		r.Instructions = &echo.Instructions
	}
	if echo.PreviousResponseID != "" {
		r.PreviousResponseID = &echo.PreviousResponseID
	}
	return r
}

// end sets the fields of a finished run.
func (r *Response) end(run *domain.Run) {
	r.Status, r.IncompleteDetails = statusFor(run), incompleteDetails(run)
	if r.Status == ResponseCompleted && run.FinishedAt != nil {
		r.CompletedAt = new(run.FinishedAt.Unix())
	}
	r.Error = failure(run)
	used := run.Usage
	r.Usage = &ResponseUsage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, TotalTokens: used.InputTokens + used.OutputTokens}
}

// modelFor returns the agent or template of a run.
func modelFor(run *domain.Run) string {
	if run.AgentID != nil {
		return *run.AgentID
	}
	return deref(run.TemplateID)
}

// statusFor returns the protocol's status for a run. The protocol has no status for a run that
// waits for a person, so such a run counts as in progress.
func statusFor(run *domain.Run) ResponseStatus {
	switch run.Status {
	case domain.RunQueued:
		return ResponseQueued
	case domain.RunCompleted:
		if run.Incomplete() {
			return ResponseIncomplete
		}
		return ResponseCompleted
	case domain.RunFailed, domain.RunTimedOut:
		return ResponseFailed
	case domain.RunCancelled:
		return ResponseCancelled
	// In both states the answer is still to come.
	case domain.RunRunning, domain.RunRequiresAction:
	}
	return ResponseInProgress
}

// failure returns the reason why a finished run has no answer, or nil if the run has one.
func failure(run *domain.Run) *ResponseError {
	said := domain.RunError{}
	if run.Error != nil {
		said = *run.Error
	}
	switch run.Status {
	case domain.RunFailed:
		return &ResponseError{Code: cmp.Or(said.Code, "failed"), Message: cmp.Or(said.Message, "The run failed.")}
	case domain.RunTimedOut:
		return &ResponseError{Code: "timed_out", Message: cmp.Or(said.Message, "The run exceeded its time limit.")}
	case domain.RunCancelled:
		return &ResponseError{Code: "cancelled", Message: cmp.Or(said.Message, "The run was cancelled.")}
	case domain.RunQueued, domain.RunRunning, domain.RunRequiresAction, domain.RunCompleted:
	}
	return nil
}

// deref returns the text that s points to, or "" for nil.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
