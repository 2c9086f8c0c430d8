package realtime

import (
	"maps"

	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
	"parley/shared/domain"
)

// answer is a response: a run, and the message that it becomes.
type answer struct {
	id       string // of the message, and the answer's name on the line and to the gate
	response string
	run      string
	text     bool // it is written, not spoken
	voice    string
	metadata map[string]string
	given    []*item                // what the run is to answer, until it is accepted
	begun    bool                   // the run was accepted
	dropped  string                 // reason for which it was cancelled before
	opened   bool                   // the message was told of
	last     bool                   // the text is whole
	final    *domain.Run            // as it ended; nil as long as it is open
	waits    *domain.RequiredAction // a person's decision
	stopped  bool                   // its audio is played no further
	whole    bool                   // it was said to its end
	mute     *contract.VoiceFailure // why it is spoken no further: the rest is told in writing
	recorded bool                   // what was heard of it was told as less than the whole
	attempts stream.Told
	spoken   spoken
}

// status is what came of a response.
type status struct {
	name   string
	reason string
	err    *openaiapi.Error
}

// shownResponse is a response as clients are told of it.
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

type shownDetails struct {
	Type   string           `json:"type"`
	Reason string           `json:"reason,omitempty"`
	Error  *openaiapi.Error `json:"error,omitempty"`
}

type shownUsage struct {
	TotalTokens  int64       `json:"total_tokens"`
	InputTokens  int64       `json:"input_tokens"`
	OutputTokens int64       `json:"output_tokens"`
	Input        shownTokens `json:"input_token_details"`
	Output       shownTokens `json:"output_token_details"`
}

type shownTokens struct {
	Text  int64 `json:"text_tokens"`
	Audio int64 `json:"audio_tokens"`
}

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

func (a *answer) voiceIn(s *session) string {
	if a.voice != "" {
		return a.voice
	}
	return s.voice
}

// message is an answer's item as it stands.
func (a *answer) message(s status) *item {
	it := &item{id: a.id, role: "assistant", status: statusIncomplete, answer: a, taken: true}
	if s.name == statusInProgress || s.name == statusCompleted {
		it.status = s.name
	}
	if s.name == statusInProgress {
		return it
	}
	it.parts = []part{{kind: partOutputAudio, text: string(a.spoken.text[:a.spoken.told]), heardBy: true}}
	if a.text {
		it.parts[0].kind = partOutputText
	}
	if a.final != nil && s.name == statusCompleted {
		it.parts[0].annotations = openaiapi.Annotations(a.final.Citations)
	}
	return it
}

func (a *answer) place() partPlace { return partPlace{ResponseID: a.response, ItemID: a.id} }

func (a *answer) part(text string) shownPart {
	if a.text {
		return shownPart{Type: modalityText, Text: &text}
	}
	return shownPart{Type: modalityAudio, Transcript: &text}
}
