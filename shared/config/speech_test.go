package config_test

import (
	"strings"
	"testing"

	"parley/shared/config"
)

func TestSpeechSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   config.Workers
		wrong string
	}{
		"none":            {config.Workers{}, ""},
		"offline":         {config.Workers{Speech: config.Speech{TranscriptionModel: "offline/pocketsphinx", SpeechModel: "offline/espeak-ng"}}, ""},
		"off":             {config.Workers{Speech: config.Speech{TranscriptionModel: "off", SpeechModel: "off"}}, ""},
		"a service":       {config.Workers{Speech: config.Speech{TranscriptionModel: "openai/w", SpeechModel: "openai/t", AudioBaseURL: "http://a:1/v1"}}, ""},
		"the models' key": {config.Workers{OpenAIAPIKey: "k", Speech: config.Speech{TranscriptionModel: "openai/whisper-1"}}, ""},
		"no service":      {config.Workers{Speech: config.Speech{TranscriptionModel: "openai/whisper-1"}}, "TRANSCRIPTION_MODEL=openai/whisper-1 needs AUDIO_API_KEY"},
		"no service to speak": {
			config.Workers{Speech: config.Speech{SpeechModel: "openai/tts-1"}}, "SPEECH_MODEL=openai/tts-1 needs AUDIO_API_KEY",
		},
		"listens with the other": {config.Workers{Speech: config.Speech{TranscriptionModel: "offline/espeak-ng"}}, "TRANSCRIPTION_MODEL"},
		"speaks with the other":  {config.Workers{Speech: config.Speech{SpeechModel: "offline/pocketsphinx"}}, "SPEECH_MODEL"},
		"no name":                {config.Workers{Speech: config.Speech{SpeechModel: "openai/"}}, "SPEECH_MODEL"},
		"another provider":       {config.Workers{Speech: config.Speech{SpeechModel: "anthropic/x"}}, "SPEECH_MODEL"},
		"address":                {config.Workers{Speech: config.Speech{AudioBaseURL: "audio:8080"}}, "AUDIO_BASE_URL"},
		"connections":            {config.Workers{Speech: config.Speech{VoiceConcurrency: -1}}, "VOICE_CONCURRENCY"},
		"too many connections":   {config.Workers{Speech: config.Speech{VoiceConcurrency: 100_001}}, "VOICE_CONCURRENCY"},
		"no voice's name":        {config.Workers{Speech: config.Speech{SpeechVoice: "a\nb"}}, "SPEECH_VOICE"},
		"a long name":            {config.Workers{Speech: config.Speech{SpeechVoice: strings.Repeat("a", 101)}}, "SPEECH_VOICE"},
	} {
		err := c.set.Check()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatSpeechIsMadeWith(t *testing.T) {
	t.Parallel()
	const (
		heard, spoken = "openai/gpt-4o-mini-transcribe", "openai/gpt-4o-mini-tts"
		models, audio = "https://models.example/v1", "https://audio.example/v1"
	)
	offline := config.Speech{TranscriptionModel: "offline/pocketsphinx", SpeechModel: "offline/espeak-ng"}
	for name, c := range map[string]struct{ set, want config.Workers }{
		"nothing set":  {config.Workers{}, config.Workers{Speech: offline}},
		"OpenAI's key": {config.Workers{OpenAIAPIKey: "k"}, config.Workers{Speech: config.Speech{TranscriptionModel: heard, SpeechModel: spoken, AudioAPIKey: "k"}}},
		"models elsewhere": {config.Workers{OpenAIAPIKey: "k", OpenAIBaseURL: models}, config.Workers{Speech: config.Speech{
			TranscriptionModel: offline.TranscriptionModel, SpeechModel: offline.SpeechModel, AudioAPIKey: "k", AudioBaseURL: models,
		}}},
		"audio elsewhere, without a key": {
			config.Workers{OpenAIAPIKey: "k", Speech: config.Speech{AudioBaseURL: audio}},
			config.Workers{Speech: config.Speech{TranscriptionModel: heard, SpeechModel: spoken, AudioBaseURL: audio}},
		},
		"audio at the models' address": {
			config.Workers{OpenAIAPIKey: "k", OpenAIBaseURL: models, Speech: config.Speech{AudioBaseURL: models}},
			config.Workers{Speech: config.Speech{TranscriptionModel: heard, SpeechModel: spoken, AudioAPIKey: "k", AudioBaseURL: models}},
		},
		"a key of its own": {
			config.Workers{OpenAIAPIKey: "k", OpenAIBaseURL: models, Speech: config.Speech{AudioAPIKey: "a", SpeechVoice: "sage", VoiceConcurrency: 3}},
			config.Workers{Speech: config.Speech{
				TranscriptionModel: heard, SpeechModel: spoken, AudioAPIKey: "a", AudioBaseURL: models, SpeechVoice: "sage", VoiceConcurrency: 3,
			}},
		},
		"what is set stays": {
			config.Workers{OpenAIAPIKey: "k", Speech: config.Speech{TranscriptionModel: "off", SpeechModel: "offline/espeak-ng"}},
			config.Workers{Speech: config.Speech{TranscriptionModel: "off", SpeechModel: "offline/espeak-ng", AudioAPIKey: "k"}},
		},
	} {
		if got := c.set.Voice(); got != c.want.Speech {
			t.Errorf("%s: %+v, want %+v", name, got, c.want.Speech)
		}
	}
}
