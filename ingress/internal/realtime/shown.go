package realtime

import (
	"encoding/json"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
)

// shownSession is a session in the form of the protocol. A setting for a feature that agents do not
// have contains a neutral value.
type shownSession struct {
	Type            string     `json:"type"` // always the text "realtime"
	Object          string     `json:"object"`
	ID              string     `json:"id,omitempty"`
	Model           string     `json:"model"`
	Modalities      []string   `json:"output_modalities"`
	Instructions    string     `json:"instructions"`
	Tools           []struct{} `json:"tools"`
	ToolChoice      string     `json:"tool_choice"`
	MaxOutputTokens string     `json:"max_output_tokens"`
	Truncation      string     `json:"truncation"`
	ExpiresAt       int64      `json:"expires_at,omitempty"`
	Audio           shownAudio `json:"audio"`
}

// shownAudio contains the audio settings of a session or a response. Input is nil in responses.
type shownAudio struct {
	Input  *shownInput `json:"input,omitempty"`
	Output shownOutput `json:"output"`
}

// shownInput contains the settings of the input. Detection is null if turn detection is off.
type shownInput struct {
	Format        shownFormat        `json:"format"`
	Transcription shownTranscription `json:"transcription"`
	Detection     *shownDetection    `json:"turn_detection"`
}

// shownTranscription contains the hints for transcription.
type shownTranscription struct {
	Model    string `json:"model,omitempty"`
	Language string `json:"language,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
}

// shownOutput contains the settings of the output.
type shownOutput struct {
	Format shownFormat `json:"format"`
	Voice  string      `json:"voice,omitempty"`
	Speed  float64     `json:"speed,omitempty"`
}

// shownFormat is an audio format.
type shownFormat struct {
	Type string `json:"type"`
	Rate int    `json:"rate"`
}

// shownDetection contains the settings of turn detection. A setting that does not apply to the kind
// of detection is nil or empty.
type shownDetection struct {
	Type      string   `json:"type"`
	Threshold *float64 `json:"threshold,omitempty"`
	PrefixMS  *int     `json:"prefix_padding_ms,omitempty"`
	SilenceMS *int     `json:"silence_duration_ms,omitempty"`
	Eagerness string   `json:"eagerness,omitempty"`
	Create    bool     `json:"create_response"`
	Interrupt bool     `json:"interrupt_response"`
}

// pcm is the only supported audio format, both for input and for output.
var pcm = shownFormat{Type: "audio/pcm", Rate: contract.VoiceRate}

// shown returns the session as the client sees it. It contains defaults, so the client sees all
// settings that apply.
func (s *session) shown(set Settings) *shownSession {
	out := &shownSession{
		Type: "realtime", Object: "realtime.session", ID: set.SessionID, Model: set.Model, Modalities: modalities(s.text),
		Instructions: s.instructions, Tools: []struct{}{}, ToolChoice: "auto", MaxOutputTokens: "inf", Truncation: "auto",
		Audio: shownAudio{
			Input: &shownInput{
				Format: pcm, Detection: s.detection.shown(),
				Transcription: shownTranscription{Model: set.transcription, Language: s.language, Prompt: s.prompt},
			},
			Output: shownOutput{Format: pcm, Voice: s.voice, Speed: s.speed},
		},
	}
	if !set.Expires.IsZero() {
		out.ExpiresAt = set.Expires.Unix()
	}
	return out
}

// shown returns the settings of turn detection as the client sees them, without those that do not
// apply to the kind. It returns nil if d is nil. The pointers in the result refer to d, which is
// never modified.
func (d *detection) shown() *shownDetection {
	switch {
	case d == nil:
		return nil
	case d.kind == semanticVAD:
		return &shownDetection{Type: d.kind, Eagerness: d.eagerness, Create: d.create, Interrupt: d.interrupt}
	}
	return &shownDetection{
		Type: d.kind, Threshold: &d.threshold, PrefixMS: &d.prefixMS, SilenceMS: &d.silenceMS, Create: d.create, Interrupt: d.interrupt,
	}
}

// modalities returns the protocol's list of modalities: either text or speech.
func modalities(text bool) []string {
	if text {
		return []string{modalityText}
	}
	return []string{modalityAudio}
}

// take applies the session settings that a client secret contains. Empty settings change nothing.
// The error is an *apierr.Error with all faults.
func (s *session) take(model string, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var found faults
	if o, ok := newObject("session", raw, &found); ok {
		s.update(model, o)
	}
	return apierr.InvalidFields(found)
}

// New returns the conversation of a new connection. It returns an error if set.Session is invalid.
// The error names the invalid fields. The argument now is the time of the first activity.
func New(set Settings, now time.Time) (*Conversation, error) {
	c := &Conversation{eventMaker: eventMaker{set.NewID}, set: set, session: newSession(set), id: set.NewID("conv"), active: now}
	if err := c.session.take(set.Model, set.Session); err != nil {
		return nil, err
	}
	return c, nil
}
