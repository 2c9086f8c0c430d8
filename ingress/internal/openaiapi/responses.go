package openaiapi

import (
	"cmp"

	"parley/shared/domain"
	"parley/shared/id"
)

// ResponsePrefix begins the ids of responses; what follows is the suffix of their run's id.
const ResponsePrefix = "resp"

// ResponseStatus is where a response stands.
type ResponseStatus string

// The states of a response that a run can be in.
const (
	ResponseQueued     ResponseStatus = "queued"
	ResponseInProgress ResponseStatus = "in_progress"
	ResponseCompleted  ResponseStatus = "completed"
	ResponseFailed     ResponseStatus = "failed"
	ResponseCancelled  ResponseStatus = "cancelled"
)

// Response is a run as the protocol's response object. What the protocol has and a run has not is there with the value
// that says so: its clients' types want it.
type Response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"` // response
	CreatedAt          int64             `json:"created_at"`
	CompletedAt        *int64            `json:"completed_at"`
	Status             ResponseStatus    `json:"status"`
	Background         bool              `json:"background"`
	Error              *ResponseError    `json:"error"`
	IncompleteDetails  *struct{}         `json:"incomplete_details"`
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
	ToolChoice         string            `json:"tool_choice"` // auto: the agent chooses
	Tools              []struct{}        `json:"tools"`       // none of the caller's
	TopP               *float64          `json:"top_p"`
	Truncation         string            `json:"truncation"`
	Usage              *ResponseUsage    `json:"usage"`
	Parley             RunNames          `json:"parley"`
}

// ResponseError says why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ResponseUsage counts what a response consumed, in tokens.
type ResponseUsage struct {
	InputTokens        int64         `json:"input_tokens"`
	InputTokensDetails inputDetails  `json:"input_tokens_details"`
	OutputTokens       int64         `json:"output_tokens"`
	OutputDetails      outputDetails `json:"output_tokens_details"`
	TotalTokens        int64         `json:"total_tokens"`
}

type inputDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

type reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type textFormat struct {
	Format struct {
		Type string `json:"type"`
	} `json:"format"`
}

// ResponseEcho is what of a request its responses repeat. A response that is read later, by its id, repeats nothing.
type ResponseEcho struct {
	Background         bool
	Instructions       string
	Metadata           map[string]string
	PreviousResponseID string
}

// ResponseID gives the id of a run's response.
func ResponseID(runID string) string { return ResponsePrefix + "_" + id.Suffix(runID) }

// RunOfResponse gives the id of a response's run; false for what is no response's id.
func RunOfResponse(responseID string) (runID string, ok bool) {
	if !id.Valid(ResponsePrefix, responseID) {
		return "", false
	}
	return id.Run + "_" + id.Suffix(responseID), true
}

// NewResponse renders a run as it stands.
func NewResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := newResponse(run, echo)
	r.Status = statusFor(run.Status)
	r.Output = items(run)
	if run.Status.Terminal() {
		r.end(run)
	}
	return r
}

// newResponse makes the response of a run of which nothing is known but who was asked, where and when.
func newResponse(run *domain.Run, echo ResponseEcho) *Response {
	r := &Response{
		ID: ResponseID(run.ID), Object: "response", CreatedAt: run.CreatedAt.Unix(), Status: ResponseInProgress,
		Background: echo.Background, Metadata: echo.Metadata, Model: modelFor(run), Output: []Item{}, ParallelToolCalls: true,
		Store: true, ToolChoice: "auto", Tools: []struct{}{}, Truncation: "disabled",
		Parley: RunNames{RunID: run.ID, SessionID: run.SessionID},
	}
	r.Text.Format.Type = "text"
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

// end adds what is known of a run once it has ended.
func (r *Response) end(run *domain.Run) {
	r.Status = statusFor(run.Status)
	if run.Status == domain.RunCompleted && run.FinishedAt != nil {
		r.CompletedAt = new(run.FinishedAt.Unix())
	}
	r.Error = failure(run)
	used := run.Usage
	r.Usage = &ResponseUsage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, TotalTokens: used.InputTokens + used.OutputTokens}
}

func modelFor(run *domain.Run) string {
	if run.AgentID != nil {
		return *run.AgentID
	}
	return deref(run.TemplateID)
}

// statusFor gives the protocol's word for a run's state. It has none for a run that waits for a person: that goes on.
func statusFor(status domain.RunStatus) ResponseStatus {
	switch status {
	case domain.RunQueued:
		return ResponseQueued
	case domain.RunCompleted:
		return ResponseCompleted
	case domain.RunFailed, domain.RunTimedOut:
		return ResponseFailed
	case domain.RunCancelled:
		return ResponseCancelled
	case domain.RunRunning, domain.RunRequiresAction:
	}
	return ResponseInProgress
}

// failure says why an ended run has no answer; nil when it has one.
func failure(run *domain.Run) *ResponseError {
	said := domain.RunError{}
	if run.Error != nil {
		said = *run.Error
	}
	switch run.Status {
	case domain.RunFailed:
		return &ResponseError{Code: cmp.Or(said.Code, "failed"), Message: cmp.Or(said.Message, "The run failed.")}
	case domain.RunTimedOut:
		return &ResponseError{Code: "timed_out", Message: cmp.Or(said.Message, "The run did not end within its time.")}
	case domain.RunCancelled:
		return &ResponseError{Code: "cancelled", Message: cmp.Or(said.Message, "The run was cancelled.")}
	case domain.RunQueued, domain.RunRunning, domain.RunRequiresAction, domain.RunCompleted:
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
