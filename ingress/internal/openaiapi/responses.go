package openaiapi

import (
	"cmp"
	"encoding/json"
	"fmt"

	"parley/shared/domain"
	"parley/shared/id"
)

// ResponsePrefix is the prefix of response ids. A response id consists of this prefix and the
// suffix of the run's id.
const ResponsePrefix = "resp"

// ResponseStatus is the state of a response.
type ResponseStatus string

// These constants are the statuses of a response that correspond to the states of a run.
const (
	ResponseQueued     ResponseStatus = "queued"
	ResponseInProgress ResponseStatus = "in_progress"
	ResponseCompleted  ResponseStatus = "completed"
	ResponseIncomplete ResponseStatus = "incomplete"
	ResponseFailed     ResponseStatus = "failed"
	ResponseCancelled  ResponseStatus = "cancelled"
)

// Response is a run in the form of a response object. A field that has no counterpart in a run has
// a neutral value, because client libraries require the field. Times are in seconds since 1970.
type Response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"` // always response
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
	ToolChoice         any               `json:"tool_choice"` // a string or an object
	Tools              []responseTool    `json:"tools"`       // tools of the client; only in the response to the request that has them
	TopP               *float64          `json:"top_p"`
	Truncation         string            `json:"truncation"`
	Usage              *ResponseUsage    `json:"usage"`
	Parley             RunNames          `json:"parley"`
}

// ResponseError is the reason why a response failed. Code is the code of the run's error, or the
// run's status.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ResponseUsage is the token usage of a response. The details are always 0.
type ResponseUsage struct {
	InputTokens        int64         `json:"input_tokens"`
	InputTokensDetails inputDetails  `json:"input_tokens_details"`
	OutputTokens       int64         `json:"output_tokens"`
	OutputDetails      outputDetails `json:"output_tokens_details"`
	TotalTokens        int64         `json:"total_tokens"`
}

// incompleteReason contains the reason why an answer ended early: max_output_tokens or
// content_filter.
type incompleteReason struct {
	Reason string `json:"reason"`
}

// incompleteDetails returns why a run's answer ended early, or nil if it did not. The reason
// content_filter has the same name in Parley's API and in the protocol.
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

// reasoning contains the settings for the model's reasoning.
type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// textFormat contains the settings of the answer's text.
type textFormat struct {
	Format responseFormat `json:"format"`
}

// ResponseEcho contains the request fields that responses repeat. The fields with a JSON name are
// stored with the run, because a response can also be read later by its id. View and the client's
// tools are not stored, because only the response to the request itself needs them.
type ResponseEcho struct {
	Background bool                  `json:"background,omitempty"`
	Metadata   map[string]string     `json:"metadata,omitempty"`
	Format     *responseFormat       `json:"format,omitempty"` // format of the answer; nil: plain text
	Settings   *domain.ModelSettings `json:"settings,omitempty"`
	// Instructions of the request; not stored, because the run has them.
	Instructions       string `json:"-"`
	PreviousResponseID string `json:"previous_response_id,omitempty"`
	Unstored           bool   `json:"-"` // whether the response cannot be retrieved or continued later
	View               View   `json:"-"`

	ClientTools *domain.ClientTools `json:"-"`
	Strict      []bool              `json:"-"` // the field strict of each tool in ClientTools
}

// AppendSources returns whether the metadata requests a list of sources after the answer. It
// returns nil if the metadata does not say so either way.
func (e ResponseEcho) AppendSources() *bool {
	return appendSources(e.Metadata, func(string, string, string, ...any) {}) // the metadata was validated before it was stored
}

// Stored returns the JSON of the fields to store with the run, or nil if all of them are empty. The
// row of the run stores the result. Decoding the result with encoding/json restores the fields.
func (e ResponseEcho) Stored() (json.RawMessage, error) {
	// For most runs all fields are empty, so nothing is stored.
	if !e.Background && len(e.Metadata) == 0 && e.PreviousResponseID == "" && e.Format == nil && e.Settings == nil {
		return nil, nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("writing the response's fields: %w", err)
	}
	return b, nil
}

// ResponseID returns the id of the response for a run.
func ResponseID(runID string) string { return ResponsePrefix + "_" + id.Suffix(runID) }

// RunOfResponse returns the id of the run to which a response id belongs. It returns false if the
// id does not have the form of a response id. The run may not exist; only the form of the id is
// checked.
func RunOfResponse(responseID string) (runID string, ok bool) {
	if !id.Valid(ResponsePrefix, responseID) {
		return "", false
	}
	return id.Run + "_" + id.Suffix(responseID), true
}

// NewResponse renders a run in its current state as a response. The run may be unfinished; its
// output then contains the calls so far. Usage and error are set only for finished runs.
func NewResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := newResponse(run, echo)
	r.Status = statusFor(run)
	r.Output = items(run, echo.View)
	if run.Status.Terminal() {
		r.end(run)
	}
	return r
}

// newResponse returns a response with the fields that do not depend on the result of the run, such
// as the agent and the session. Its lists and maps are never nil, because client libraries reject
// null.
func newResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := &Response{
		ID: ResponseID(run.ID), Object: "response", CreatedAt: run.CreatedAt.Unix(), Status: ResponseInProgress,
		Background: echo.Background, Metadata: echo.Metadata, Model: modelFor(run), Output: []Item{}, ParallelToolCalls: true,
		Store: !echo.Unstored, Truncation: "disabled",
		Parley: RunNames{RunID: run.ID, SessionID: run.SessionID},
	}
	r.Tools, r.ToolChoice = shownTools(echo.ClientTools, echo.Strict)
	r.Text.Format.Type = formatText
	if echo.Format != nil {
		r.Text.Format = *echo.Format
	}
	if r.showSettings(echo.Settings); run.Settings != nil { // after the run has finished, its settings include the agent's own
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

// end sets the fields of the response that depend on the finished run. CompletedAt is set only for
// completed runs.
func (r *Response) end(run *domain.Run) {
	r.Status, r.IncompleteDetails = statusFor(run), incompleteDetails(run)
	if r.Status == ResponseCompleted && run.FinishedAt != nil {
		r.CompletedAt = new(run.FinishedAt.Unix())
	}
	r.Error = failure(run)
	used := run.Usage
	r.Usage = &ResponseUsage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, TotalTokens: used.InputTokens + used.OutputTokens}
}

// modelFor returns the id of the agent or template that the run executes. If the run has neither
// id, the result is "".
func modelFor(run *domain.Run) string {
	if run.AgentID != nil {
		return *run.AgentID
	}
	return deref(run.TemplateID)
}

// statusFor returns the response status for a run. OpenAI's API has no status for a run that waits
// for a person, so such a run is reported as in progress.
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
	// A run that is running or requires action has no answer yet.
	case domain.RunRunning, domain.RunRequiresAction:
	}
	return ResponseInProgress
}

// failure returns the error of a finished run without an answer, or nil if the run has an answer.
// The code of a failed run is the code of its error. The message is never empty.
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
