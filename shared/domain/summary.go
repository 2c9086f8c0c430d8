package domain

const (
	// maxSummaryMessage is the maximum number of characters of the message in a summary.
	maxSummaryMessage = 500
	// maxSummaryCalls is the maximum number of tool calls in a summary: as many as a run can make.
	maxSummaryCalls = 128
)

// RunSummary is a run as shown in lists. The HTTP API uses its JSON form. Only the run object has
// the whole message, the output, the citations, and the inputs and outputs of tools.
type RunSummary struct {
	ID            string            `json:"id"`
	Status        RunStatus         `json:"status"`
	AgentID       *string           `json:"agentId"`
	TemplateID    *string           `json:"templateId"`
	SessionID     string            `json:"sessionId"`
	PreviousRunID *string           `json:"previousRunId,omitempty"`
	Trigger       Trigger           `json:"trigger"`
	Message       *string           `json:"message"`
	MessageCut    bool              `json:"messageCut,omitempty"` // the message was truncated
	Citations     int               `json:"citations"`
	ToolCalls     []ToolCallSummary `json:"toolCalls"`
	ToolCallsCut  bool              `json:"toolCallsCut,omitempty"` // there are more tool calls
	Usage         Usage             `json:"usage"`
	Error         *RunError         `json:"error"`
	OmittedTurns  int               `json:"omittedTurns,omitempty"`
	// RequiredAction is set while the run is in requires_action.
	RequiredAction   *RequiredActionSummary `json:"requiredAction,omitempty"`
	CitationsRemoved int                    `json:"citationsRemoved,omitempty"`
	FinishReason     *FinishReason          `json:"finishReason"`
	AgentVersion     *int                   `json:"agentVersion"`
	Attempts         int                    `json:"attempts"`
	IdempotencyKey   *string                `json:"idempotencyKey"`
	CreatedAt        Time                   `json:"createdAt"`
	StartedAt        *Time                  `json:"startedAt"`
	FinishedAt       *Time                  `json:"finishedAt"`
	ExpiresAt        *Time                  `json:"expiresAt"`
}

// ToolCallSummary is a tool call without its input and output.
type ToolCallSummary struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	DurationMS int64  `json:"durationMs"`
}

// RequiredActionSummary is a required action whose input is omitted if it is large.
type RequiredActionSummary struct {
	RequiredAction

	InputCut bool `json:"inputCut,omitempty"` // the input is null here because it is large; the run object has it
}

// CutSummary truncates the message to 500 characters and the tool calls to 128.
func (r *RunSummary) CutSummary() {
	if r.Message != nil {
		var cut string
		if cut, r.MessageCut = FirstRunes(*r.Message, maxSummaryMessage); r.MessageCut {
			r.Message = &cut
		}
	}
	if r.ToolCallsCut = len(r.ToolCalls) > maxSummaryCalls; r.ToolCallsCut {
		r.ToolCalls = r.ToolCalls[:maxSummaryCalls]
	}
	if r.ToolCalls == nil {
		r.ToolCalls = []ToolCallSummary{}
	}
}

// FirstRunes returns the first n characters of a text, and whether the text is longer.
func FirstRunes(text string, n int) (first string, more bool) {
	for at := range text {
		if n == 0 {
			return text[:at], true
		}
		n--
	}
	return text, false
}
