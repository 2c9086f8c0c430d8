package realtime

import (
	"maps"

	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
	"parley/shared/domain"
)

// answer is a response. It consists of a run and of the message with the run's answer. It is
// created by begin. It is kept after its end, because the client may correct how much was played.
type answer struct {
	id string // id of the message, by which the worker and the gate also identify the answer
	// ID of the response; empty until the run is accepted or refused.
	response string
	run      string // id of the run; empty until the run is accepted
	text     bool   // whether the answer is text only, without speech
	// Voice of the response; empty: that of the session.
	voice string
	// Metadata of the client's request; nil: none.
	metadata map[string]string
	given    []*item                // items that the run gets as its input; nil after the run was accepted
	begun    bool                   // whether the run was accepted
	dropped  string                 // why the answer was cancelled before its run was accepted
	opened   bool                   // whether the start of the message was sent
	last     bool                   // whether the text of the answer is complete
	final    *domain.Run            // the run after it has finished; nil before that
	waits    *domain.RequiredAction // the decision of a person for which the run waits
	stopped  bool                   // whether the rest of the audio must not be played
	whole    bool                   // whether the whole text was spoken
	mute     *contract.VoiceFailure // why the rest is sent as text instead of speech
	recorded bool                   // whether it was recorded that only a part of the answer was played
	// Text of the run's attempts, to detect a restarted run with a different text.
	attempts stream.SentText
	spoken   spoken // the text so far, and its speech
}

// status is the outcome of a response.
type status struct {
	// One of the status constants.
	name   string
	reason string // why the response was cancelled or is incomplete; empty for any other outcome
	// Why the response failed or is incomplete; nil: no error.
	err *openaiapi.Error
}

// shownResponse is a response in the form of the protocol. The run's id is in the metadata, under
// run_id.
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

// shownDetails explains the status of a response. Type repeats the status.
type shownDetails struct {
	Type   string           `json:"type"`
	Reason string           `json:"reason,omitempty"`
	Error  *openaiapi.Error `json:"error,omitempty"`
}

// shownUsage is the token usage of the run. All tokens count as text tokens, because agents receive
// transcripts instead of audio.
type shownUsage struct {
	TotalTokens  int64       `json:"total_tokens"`
	InputTokens  int64       `json:"input_tokens"`
	OutputTokens int64       `json:"output_tokens"`
	Input        shownTokens `json:"input_token_details"`
	Output       shownTokens `json:"output_token_details"`
}

// shownTokens contains the numbers of tokens of each kind. Audio is always 0.
type shownTokens struct {
	Text  int64 `json:"text_tokens"`
	Audio int64 `json:"audio_tokens"`
}

// shownResponse returns a response as the client sees it. Output, details and usage are set only
// after the response has ended.
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
	// A response in progress has no output, details or usage yet.
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

// voiceIn returns the voice that speaks the answer: that of the response or, if it has none, that
// of the session. An empty result means the default of the worker.
func (a *answer) voiceIn(s *session) string {
	if a.voice != "" {
		return a.voice
	}
	return s.voice
}

// message returns the item of an answer in its current state. The parts are set only after the end
// of the response. They contain the text that was sent, not the whole text of the run.
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
	// The positions of citations refer to the complete text, so they are valid only with the
	// complete text.
	if a.final != nil && s.name == statusCompleted {
		it.parts[0].annotations = openaiapi.Annotations(a.final.Citations)
	}
	return it
}

// partRef returns the fields with which events identify the answer's text.
func (a *answer) partRef() partRef { return partRef{ResponseID: a.response, ItemID: a.id} }

// part returns the only part of an answer in the form of the protocol, with the given text.
func (a *answer) part(text string) shownPart {
	if a.text {
		return shownPart{Type: modalityText, Text: &text}
	}
	return shownPart{Type: modalityAudio, Transcript: &text}
}
