package domain

const (
	// maxSummaryMessage is how many characters of its message a run's summary has.
	maxSummaryMessage = 500
	// maxSummaryCalls is how many tool calls a run's summary names: as many as a run may make.
	maxSummaryCalls = 128
)

// RunSummary is a run as lists show it; its JSON form is the contract's. The run object has the rest: the whole message, the output,
// the citations, and what tools were given and gave.
type RunSummary struct {
	ID           string            `json:"id"`
	Status       RunStatus         `json:"status"`
	AgentID      *string           `json:"agentId"`
	TemplateID   *string           `json:"templateId"`
	SessionID    string            `json:"sessionId"`
	Trigger      Trigger           `json:"trigger"`
	Message      *string           `json:"message"`
	MessageCut   bool              `json:"messageCut,omitempty"` // the message goes on
	Citations    int               `json:"citations"`
	ToolCalls    []ToolCallSummary `json:"toolCalls"`
	ToolCallsCut bool              `json:"toolCallsCut,omitempty"` // there are more
	Usage        Usage             `json:"usage"`
	Error        *RunError         `json:"error"`
	OmittedTurns int               `json:"omittedTurns,omitempty"`
	// RequiredAction is set while the run is in requires_action.
	RequiredAction   *RequiredActionSummary `json:"requiredAction,omitempty"`
	CitationsRemoved int                    `json:"citationsRemoved,omitempty"`
	Attempts         int                    `json:"attempts"`
	IdempotencyKey   *string                `json:"idempotencyKey"`
	CreatedAt        Time                   `json:"createdAt"`
	StartedAt        *Time                  `json:"startedAt"`
	FinishedAt       *Time                  `json:"finishedAt"`
	ExpiresAt        *Time                  `json:"expiresAt"`
}

// ToolCallSummary is a tool call without what the tool was given and gave.
type ToolCallSummary struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	DurationMS int64  `json:"durationMs"`
}

// RequiredActionSummary is a required action whose input is left out if it is large.
type RequiredActionSummary struct {
	RequiredAction

	InputCut bool `json:"inputCut,omitempty"` // the input is null, and the run object has it
}

// CutSummary cuts what a summary was made of to what it may show: the message to 500 characters, and the tool calls to 128.
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

// FirstRunes returns up to n characters of a text, and whether it has more.
func FirstRunes(text string, n int) (first string, more bool) {
	for at := range text {
		if n == 0 {
			return text[:at], true
		}
		n--
	}
	return text, false
}
