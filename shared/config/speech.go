package config

import (
	"fmt"
	"strings"
)

// Speech contains the settings with which workers recognize and synthesize speech.
type Speech struct {
	TranscriptionModel string `name:"transcription-model" env:"TRANSCRIPTION_MODEL" help:"Speech recognition: openai/gpt-4o-mini-transcribe or another model of the audio service, offline/pocketsphinx, or off. Default: openai/gpt-4o-mini-transcribe if an audio service is configured, otherwise offline/pocketsphinx."`
	SpeechModel        string `name:"speech-model" env:"SPEECH_MODEL" help:"Speech synthesis: openai/gpt-4o-mini-tts or another model of the audio service, offline/espeak-ng, or off. Default: openai/gpt-4o-mini-tts if an audio service is configured, otherwise offline/espeak-ng."`
	AudioBaseURL       string `name:"audio-base-url" env:"AUDIO_BASE_URL" help:"URL of an OpenAI-compatible audio service, including /v1; default: OPENAI_BASE_URL."`
	AudioAPIKey        string `name:"audio-api-key" env:"AUDIO_API_KEY" help:"Key for the audio service; default: OPENAI_API_KEY."`
	SpeechVoice        string `name:"speech-voice" env:"SPEECH_VOICE" help:"Default voice of sessions, such as alloy."`
	VoiceConcurrency   int    `name:"voice-concurrency" env:"VOICE_CONCURRENCY" default:"0" help:"Maximum voice sessions of a worker; 0: 100 per core."`
}

// Speech backends.
const (
	SpeechOff     = "off"
	SpeechOpenAI  = "openai/" // prefix of the names of models of the audio service
	OfflineListen = "offline/pocketsphinx"
	OfflineSpeak  = "offline/espeak-ng"

	// models that are used by default if there is an audio service
	openaiListen = "openai/gpt-4o-mini-transcribe"
	openaiSpeak  = "openai/gpt-4o-mini-tts"
)

const (
	// Bounds of the settings.
	maxVoiceConcurrency = 100_000
	maxVoiceName        = 100
)

// Check returns an error for the first invalid setting.
func (s Speech) Check() error {
	for _, model := range []struct{ name, value, offline string }{
		{"TRANSCRIPTION_MODEL", s.TranscriptionModel, OfflineListen},
		{"SPEECH_MODEL", s.SpeechModel, OfflineSpeak},
	} {
		// Only the prefix of the model's name is checked here. The audio service checks the model
		// itself.
		name, of := strings.CutPrefix(model.value, SpeechOpenAI)
		if model.value != "" && model.value != SpeechOff && model.value != model.offline && (!of || name == "") {
			return fmt.Errorf("%s must be openai/MODEL, %s or off, not %q", model.name, model.offline, model.value)
		}
	}

	if s.VoiceConcurrency < 0 || s.VoiceConcurrency > maxVoiceConcurrency {
		return fmt.Errorf("VOICE_CONCURRENCY must be between 0 and %d, not %d", maxVoiceConcurrency, s.VoiceConcurrency)
	}
	if len(s.SpeechVoice) > maxVoiceName || strings.ContainsFunc(s.SpeechVoice, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("SPEECH_VOICE must be a voice's name, not %q", s.SpeechVoice)
	}

	return checkAddress("AUDIO_BASE_URL", s.AudioBaseURL)
}

// Voice returns the speech settings with defaults filled in. OPENAI_API_KEY is sent only to
// OPENAI_BASE_URL, never to a different AUDIO_BASE_URL.
func (w Workers) Voice() Speech {
	// There is an audio service if one is configured, or if OpenAI's own address is configured with
	// a key.
	s := w.Speech
	service := s.AudioAPIKey != "" || s.AudioBaseURL != "" || w.OpenAIAPIKey != "" && w.OpenAIBaseURL == ""
	if s.AudioBaseURL == "" || s.AudioBaseURL == w.OpenAIBaseURL {
		s.AudioBaseURL = w.OpenAIBaseURL
		if s.AudioAPIKey == "" {
			s.AudioAPIKey = w.OpenAIAPIKey
		}
	}
	s.TranscriptionModel = modelOrDefault(s.TranscriptionModel, service, openaiListen, OfflineListen)
	s.SpeechModel = modelOrDefault(s.SpeechModel, service, openaiSpeak, OfflineSpeak)
	return s
}

// modelOrDefault returns the configured model, if set. Otherwise it returns the online default if
// the argument service is true, and the offline default if service is false. An OPENAI_BASE_URL of
// another provider does not count as an audio service, because that server may not have the online
// model.
func modelOrDefault(set string, service bool, online, offline string) string {
	switch {
	case set != "":
		return set
	case service:
		return online
	default:
		return offline
	}
}

// checkSpeech returns an error if a model of the audio service is configured, but no audio service.
func (w Workers) checkSpeech() error {
	if err := w.Speech.Check(); err != nil {
		return err
	}

	s := w.Voice()
	if s.AudioAPIKey != "" || s.AudioBaseURL != "" {
		return nil
	}

	for _, model := range []struct{ name, value string }{{"TRANSCRIPTION_MODEL", s.TranscriptionModel}, {"SPEECH_MODEL", s.SpeechModel}} {
		if strings.HasPrefix(model.value, SpeechOpenAI) {
			return fmt.Errorf("%s=%s needs AUDIO_API_KEY, OPENAI_API_KEY or AUDIO_BASE_URL", model.name, model.value)
		}
	}

	return nil
}
