package realtime

import (
	"encoding/json"
	"regexp"

	"parley/shared/contract"
)

// These constants are the maximum lengths of texts in a session.
const (
	maxInstructions = 32_000 // maximum total of the session's instructions and system items, in characters
	// Maximum length of the prompt for transcription, in characters.
	maxPrompt = 2_000
	maxName   = 64 // maximum length of the id of a voice or an item, in characters
)

// These constants are the modalities of answers: text or speech.
const (
	modalityAudio = "audio"
	modalityText  = "text"
)

// These constants are the kinds of turn detection.
const (
	serverVAD   = "server_vad"
	semanticVAD = "semantic_vad"
)

// session contains the settings that a client can change. newSession creates it. The conversation
// replaces it as a whole after valid changes.
type session struct {
	text bool // whether answers are text only, without speech
	// Instructions in addition to those of the agent; empty: none.
	instructions string
	// ID of the voice; empty: default of the worker.
	voice string
	speed float64 // speed of speech; 1 is the normal speed
	// Language code of the speech; empty: not set.
	language  string
	prompt    string     // text that helps the transcription, such as names
	detection *detection // settings of turn detection; nil: the client ends turns itself
}

// detection contains the client's settings for turn detection. It is replaced, not modified, so
// sessions may share it.
type detection struct {
	// Either serverVAD or semanticVAD.
	kind      string
	threshold float64 // sensitivity for server_vad, from 0 to 1
	// Milliseconds of audio before the detected speech that are treated as part of the speech.
	prefixMS int
	// Duration of silence that ends a turn; used only for server_vad.
	silenceMS int
	eagerness string // a key of the map eagernesses; used only for semantic_vad
	create    bool   // whether the end of a turn causes a response
	interrupt bool   // whether speech of the user stops the answer
}

// newSession returns the session with which the protocol begins: spoken answers at normal speed,
// and turn detection of the kind server_vad.
func newSession(s Settings) session {
	return session{voice: s.Voice, instructions: s.Instructions, speed: 1, detection: newDetection(serverVAD)}
}

// newDetection returns the default settings for a kind of turn detection.
func newDetection(kind string) *detection {
	return &detection{kind: kind, threshold: 0.5, prefixMS: 300, silenceMS: 500, eagerness: "auto", create: true, interrupt: true}
}

// eagernesses maps each eagerness to the duration of silence that ends a turn, in milliseconds.
var eagernesses = map[string]int{"low": 1200, "medium": 700, "high": 400, "auto": 700}

// config returns the session's settings for the voice worker. semantic_vad is approximated: the
// eagerness determines only the duration of silence.
func (s *session) config() contract.VoiceConfig {
	config := contract.VoiceConfig{Language: s.language, Prompt: s.prompt, Voice: s.voice, Speed: s.speed}
	if d := s.detection; d != nil {
		config.Detection = &contract.VoiceDetection{Threshold: d.threshold, PrefixMS: d.prefixMS, SilenceMS: d.silenceMS}
		if d.kind == semanticVAD {
			config.Detection.SilenceMS = eagernesses[d.eagerness]
		}
	}
	return config
}

// update applies the client's settings to the session. Missing settings keep their values. Faults
// are added to o. After a fault the session may be partly changed. The argument model is the model
// of the connection, which cannot change.
func (s *session) update(model string, o object) {
	kind, named := "realtime", model
	if o.text("type", &kind, maxName) && kind != "realtime" {
		o.wrong("type", codeValue, "must be realtime: transcription sessions are not supported")
	}
	if o.text("model", &named, 2*maxName) && named != model {
		o.wrong("model", codeValue, "cannot be changed: the session uses %s", model)
	}
	o.text("instructions", &s.instructions, maxInstructions)
	s.text = modality(o, s.text)
	refuseTools(o)
	// Fields of the beta protocol are rejected. If they were ignored, clients would get different
	// settings than they requested.
	refuseMoved(o, betaSession)

	if audio, ok := o.object("audio"); ok {
		if input, ok := audio.object("input"); ok {
			s.updateInput(input)
		}
		if output, ok := audio.object("output"); ok {
			checkFormat(output)
			voice(output, &s.voice)
			output.number("speed", &s.speed, 0.25, 1.5)
		}
	}
}

// updateInput applies the settings for the input. If transcription is null, its hints are removed.
// If turn_detection is null, speech detection is turned off. Missing settings keep their values.
func (s *session) updateInput(input object) {
	checkFormat(input)
	if input.null("transcription") {
		s.language, s.prompt = "", ""
	}
	if transcription, ok := input.object("transcription"); ok {
		s.updateTranscription(transcription)
	}
	if input.null("turn_detection") {
		s.detection = nil
	}
	if turns, ok := input.object("turn_detection"); ok {
		s.updateDetection(turns)
	}
}

// languageForm matches a language code, possibly with a region.
var languageForm = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

// updateTranscription applies the hints for transcription: the language and a prompt. After a
// fault, the language keeps its value.
func (s *session) updateTranscription(o object) {
	language := s.language
	if o.text("language", &language, maxName) && language != "" && !languageForm.MatchString(language) {
		o.wrong("language", codeValue, "must be a language code, such as en")
		language = s.language
	}
	s.language = language
	o.text("prompt", &s.prompt, maxPrompt)
}

// updateDetection applies the settings for turn detection. If they change the kind, all other
// settings first get the defaults of the new kind. Turn detection that was off is switched on.
func (s *session) updateDetection(o object) {
	kind := serverVAD
	if s.detection != nil {
		kind = s.detection.kind
	}
	o.text("type", &kind, maxName)
	if kind != serverVAD && kind != semanticVAD {
		o.wrong("type", codeValue, "must be server_vad or semantic_vad; to disable turn detection, set turn_detection to null")
		return
	}

	// The settings of the old kind are not kept, because they have other meanings in the new kind.
	d := newDetection(kind)
	if s.detection != nil && s.detection.kind == kind {
		*d = *s.detection
	}
	o.flag("create_response", &d.create)
	o.flag("interrupt_response", &d.interrupt)

	if kind == semanticVAD {
		o.text("eagerness", &d.eagerness, maxName)
		if _, known := eagernesses[d.eagerness]; !known {
			o.wrong("eagerness", codeValue, "must be low, medium, high or auto")
		}
	} else {
		o.number("threshold", &d.threshold, 0, 1)
		o.whole("prefix_padding_ms", &d.prefixMS, 0, 2000)
		o.whole("silence_duration_ms", &d.silenceMS, 100, 5000)
		o.refuse("idle_timeout_ms", "must be null: the agent cannot start the conversation")
	}
	s.detection = d
}

// modality reads output_modalities. The list must contain exactly one modality. Speech always
// includes its transcript. The argument text is the current setting, which is returned if the list
// is missing or invalid.
func modality(o object, text bool) bool {
	entries, given := o.list("output_modalities")
	if !given {
		return text
	}
	var named []string
	for _, raw := range entries {
		var name string
		if json.Unmarshal(raw, &name) != nil || name != modalityAudio && name != modalityText {
			o.wrong("output_modalities", codeValue, `must be ["audio"] or ["text"]`)
			return text
		}
		named = append(named, name)
	}
	// Some clients request both modalities, which the protocol does not allow.
	if len(named) != 1 {
		o.wrong("output_modalities", codeValue, `must be ["audio"] or ["text"]; audio includes its transcript`)
		return text
	}
	return named[0] == modalityText
}

// refuseTools rejects settings that would change the agent, because the agent has its own tools,
// prompt and limits. Neutral values, such as auto and inf, are accepted, because clients send them
// even if the user has chosen nothing.
func refuseTools(o object) {
	o.refuse("tools", "the caller's tools are not supported, because agents call only their own tools")
	o.refuse("prompt", "is not supported: the agent has its own prompt; use instructions")
	choice := "auto"
	switch {
	case !o.has("tool_choice"):
	case kind(o.members["tool_choice"]) == '{':
		o.wrong("tool_choice", codeUnsupported, "must be auto, because the agent chooses its tools itself")
	case o.text("tool_choice", &choice, maxName) && choice != "auto":
		o.wrong("tool_choice", codeUnsupported, "must be auto, because the agent chooses its tools itself")
	}
	switch raw := o.members["max_output_tokens"]; kind(raw) {
	case 0, 'n':
	case '"':
		if string(raw) != `"inf"` {
			o.wrong("max_output_tokens", codeValue, "must be inf")
		}
	default:
		o.wrong("max_output_tokens", codeUnsupported, "must be inf, because the agent's own limits apply")
	}
}

// checkFormat rejects audio formats other than 16-bit PCM at 24,000 samples per second. A missing
// format is accepted.
func checkFormat(o object) {
	format, given := o.object("format")
	if !given {
		return
	}
	name, rate := "audio/pcm", float64(contract.VoiceRate)
	if format.text("type", &name, maxName) && name != "audio/pcm" {
		format.wrong("type", codeUnsupported, "must be audio/pcm, not %s", name)
	}
	before := len(*format.faults)
	format.number("rate", &rate, 0, 1e9)
	if len(*format.faults) == before && rate != contract.VoiceRate {
		format.wrong("rate", codeUnsupported, "must be %d, not %v", contract.VoiceRate, rate)
	}
}

// voice reads the setting of a voice, which is the voice's id or an object that contains it. The
// voice may not exist: only the worker knows the voices, and it reports an unknown voice later.
func voice(o object, it *string) {
	if kind(o.members["voice"]) == '{' {
		if named, ok := o.object("voice"); ok {
			named.need("id", it, maxName)
		}
		return
	}
	name := *it
	if o.text("voice", &name, maxName) {
		if name == "" {
			o.wrong("voice", codeValue, "must not be empty")
			return
		}
		*it = name
	}
}
