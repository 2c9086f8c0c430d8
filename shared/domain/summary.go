package domain

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxSummaryCalls is the maximum number of tool calls in a summary: as many as a run can make.
const maxSummaryCalls = 128

// RunSummary is a run as shown in lists. The HTTP API uses its JSON form. Only the run object has
// the whole message, the output, the citations, and the inputs and outputs of tools.
type RunSummary struct {
	ID            string            `json:"id"`
	Status        RunStatus         `json:"status"`
	AgentID       *string           `json:"agentId"`
	TemplateID    *string           `json:"templateId"`
	SessionID     string            `json:"sessionId"`
	PreviousRunID *string           `json:"previousRunId"`
	Trigger       Trigger           `json:"trigger"`
	Input         *InputSummary     `json:"input"` // null if the input is very large
	Attachments   []Attachment      `json:"attachments,omitempty"`
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

// InputSummary is the message of a run's input.
type InputSummary struct {
	Message    string `json:"message"`
	MessageCut bool   `json:"messageCut,omitempty"` // the message was truncated
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

// Truncate truncates the texts to a number of characters, and the tool calls to 128. It also
// replaces a missing list of tool calls with an empty list.
func (r *RunSummary) Truncate(characters int) {
	if r.Message != nil {
		var cut string
		if cut, r.MessageCut = FirstRunes(*r.Message, characters); r.MessageCut {
			r.Message = &cut
		}
	}
	// The input may already be truncated, because only its beginning was read.
	if in := r.Input; in != nil {
		var cut bool
		in.Message, cut = FirstRunes(in.Message, characters)
		in.MessageCut = in.MessageCut || cut
	}
	if r.ToolCallsCut = len(r.ToolCalls) > maxSummaryCalls; r.ToolCallsCut {
		r.ToolCalls = r.ToolCalls[:maxSummaryCalls]
	}
	if r.ToolCalls == nil {
		r.ToolCalls = []ToolCallSummary{}
	}
}

// FirstRunes returns the first n characters of a text, and whether the text is longer. It does not
// read the rest of the text.
func FirstRunes(text string, n int) (first string, more bool) {
	for at := range text {
		if n == 0 {
			return text[:at], true
		}
		n--
	}
	return text, false
}

// escapedRune is the maximum length of one character in a JSON string. A character outside the
// Basic Multilingual Plane may be written as two escapes of six characters each.
const escapedRune = 12

// attachmentsPrefix is the maximum number of characters of the attachments in the JSON of an Input.
const attachmentsPrefix = MaxAttachments * 2048

// QuestionPrefix returns how many characters at the beginning of an Input's JSON are enough to
// contain the first n+1 characters of the message. The result attached applies to JSON that begins
// with AttachmentsKey, and the result plain applies to any other JSON.
func QuestionPrefix(n int) (plain, attached int) {
	plain = len(UnstoredInput) + len(questionKey) + (n+1)*escapedRune
	return plain, plain + len(AttachmentsKey) + attachmentsPrefix
}

// AttachmentsKey is the key of the attachments in the JSON of an Input. The attachments precede the
// message, so that lists of runs need to read only the beginning of a large input.
const AttachmentsKey = `"attachments":`

const questionKey = `"message":"`

// ReadQuestion returns the message and the attachments of an Input whose JSON may be truncated. The
// message is nil unless the JSON begins with the message, or with the attachments and the message.
func ReadQuestion(input string) (*InputSummary, []Attachment) {
	rest, found := strings.CutPrefix(input, UnstoredInput)
	if !found {
		rest = strings.TrimPrefix(input, "{")
	}

	var attachments []Attachment
	if list, found := strings.CutPrefix(rest, AttachmentsKey); found {
		// The decoder stops after the list, so the rest of the text may be truncated.
		in := json.NewDecoder(strings.NewReader(list))
		if in.Decode(&attachments) != nil {
			return nil, nil
		}
		rest = strings.TrimPrefix(list[in.InputOffset():], ",")
	}

	if rest, found = strings.CutPrefix(rest, questionKey); !found {
		return nil, attachments
	}
	return readMessage(rest), attachments
}

// readMessage returns the message at the beginning of rest, which follows the quotation mark of a
// JSON string and may be truncated. It returns nil if the string is not JSON.
func readMessage(rest string) *InputSummary {
	end := endOfString(rest)
	cut := end < 0
	if cut {
		end = len(rest)
	}

	// An escape at the end of a truncated text may be incomplete, so the text is shortened until it
	// is valid.
	for ; end >= 0; end-- {
		var message string
		if end < len(rest) && !utf8.RuneStart(rest[end]) {
			continue
		}
		if json.Unmarshal([]byte(`"`+rest[:end]+`"`), &message) == nil {
			return &InputSummary{Message: message, MessageCut: cut}
		}
		if !cut {
			return nil
		}
	}
	return nil
}

// endOfString returns the index of the quotation mark that ends a JSON string, or -1. A character
// after a backslash never ends the string.
func endOfString(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// Playback records which part of an interrupted spoken answer was played.
type Playback struct {
	Text    string // empty: nothing was played
	AudioMS int64
}
