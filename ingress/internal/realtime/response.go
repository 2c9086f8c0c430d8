package realtime

import (
	"maps"

	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
	"parley/shared/domain"
)

// answer is a response: a run, and the message that the run's answer becomes.
type answer struct {
	id       string // the message's id; it also identifies the answer to the worker and the gate
	response string
	run      string // empty until the run is accepted
	text     bool   // text only, without speech
	voice    string
	metadata map[string]string
	given    []*item                // input of the run, until it is accepted
	begun    bool                   // the run was accepted
	dropped  string                 // why the answer was cancelled before its run was accepted
	opened   bool                   // the message was sent
	last     bool                   // the text is complete
	final    *domain.Run            // the finished run; nil while it is open
	waits    *domain.RequiredAction // a person's decision
	stopped  bool                   // the rest of its audio is not played
	whole    bool                   // said completely
	mute     *contract.VoiceFailure // why the rest is not spoken but sent as text
	recorded bool                   // the answer was recorded as played in part
	attempts stream.SentText
	spoken   spoken // the text so far, and its speech
}

// status is the outcome of a response.
type status struct {
	name   string
	reason string // why it is cancelled or incomplete; empty: none
	err    *openaiapi.Error
}

// shownResponse is a response in the protocol's form.
type shownResponse struct {
	ID              string            `json:"id"`
	Object          string            `json:"object"`
	Status          string            `json:"status"`
	Details         *shownDetails     `json:"status_details,omitempty"`
	Output          []shownItem       `json:"output"`
	ConversationID  string            `json:"conversation_id"`
	Modalities      []string          `json:"output_modalities"`
	MaxOutputTokens string            `json:"max_output_tokens"`
	Audio           *shownAudio       `json:"audio,omitempty"`
	Usage           *shownUsage       `json:"usage,omitempty"`
	Metadata        map[string]string `json:"metadata"`
}

// shownDetails says why a response has its status.
type shownDetails struct {
	Type   string           `json:"type"`
	Reason string           `json:"reason,omitempty"`
	Error  *openaiapi.Error `json:"error,omitempty"`
}

// shownUsage is the run's usage. All tokens count as text, because the agent works with
// transcripts.
type shownUsage struct {
	TotalTokens  int64       `json:"total_tokens"`
	InputTokens  int64       `json:"input_tokens"`
	OutputTokens int64       `json:"output_tokens"`
	Input        shownTokens `json:"input_token_details"`
	Output       shownTokens `json:"output_token_details"`
}

// shownTokens are counts of tokens by kind.
type shownTokens struct {
	Text  int64 `json:"text_tokens"`
	Audio int64 `json:"audio_tokens"`
}

// shownResponse returns a response in the form that the client sees. Output, details and usage are
// set only once the response has ended.
func (c *Conversation) shownResponse(a *answer, s status) *shownResponse {
	out := &shownResponse{
		ID: a.response, Object: "realtime.response", Status: s.name, Output: []shownItem{}, ConversationID: c.id,
		Modalities: modalities(a.text), MaxOutputTokens: "inf", Metadata: map[string]string{},
	}
	maps.Copy(out.Metadata, a.metadata)
	if a.run != "" {
		out.Metadata["run_id"] = a.run
	}
	if !a.text {
		out.Audio = &shownAudio{Output: shownOutput{Format: pcm, Voice: a.voiceIn(&c.session)}}
	}
	// A response in progress has no outcome yet.
	if s.name == statusInProgress {
		return out
	}
	out.Details = &shownDetails{Type: s.name, Reason: s.reason, Error: s.err}
	if a.opened {
		out.Output = append(out.Output, a.message(s).shown())
	}
	if a.final != nil {
		u := a.final.Usage
		out.Usage = &shownUsage{
			TotalTokens: u.InputTokens + u.OutputTokens, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
			Input: shownTokens{Text: u.InputTokens}, Output: shownTokens{Text: u.OutputTokens},
		}
	}
	return out
}

// voiceIn returns the voice that speaks the answer: the response's, else the session's.
func (a *answer) voiceIn(s *session) string {
	if a.voice != "" {
		return a.voice
	}
	return s.voice
}

// message returns an answer's item in its current state.
func (a *answer) message(s status) *item {
	it := &item{id: a.id, role: "assistant", status: statusIncomplete, answer: a, taken: true}
	if s.name == statusInProgress || s.name == statusCompleted {
		it.status = s.name
	}
	if s.name == statusInProgress {
		return it
	}

	it.parts = []part{{kind: partOutputAudio, text: string(a.spoken.text[:a.spoken.reported]), heardBy: true}}
	if a.text {
		it.parts[0].kind = partOutputText
	}
	// Positions of citations refer to the complete text.
	if a.final != nil && s.name == statusCompleted {
		it.parts[0].annotations = openaiapi.Annotations(a.final.Citations)
	}
	return it
}

// place identifies the answer's text in events.
func (a *answer) place() partPlace { return partPlace{ResponseID: a.response, ItemID: a.id} }

// part returns the answer's only part with the text, in the protocol's form.
func (a *answer) part(text string) shownPart {
	if a.text {
		return shownPart{Type: modalityText, Text: &text}
	}
	return shownPart{Type: modalityAudio, Transcript: &text}
}
