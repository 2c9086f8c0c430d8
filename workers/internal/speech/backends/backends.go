package backends

import (
	"fmt"
	"strings"

	"parley/shared/config"
	"parley/workers/internal/speech"
	"parley/workers/internal/speech/espeak"
	"parley/workers/internal/speech/openaiaudio"
	"parley/workers/internal/speech/pocketsphinx"
)

// Backends contains the configured speech backends. Missing lists the reasons why backends are
// unavailable; calls of such a backend fail with its reason. A worker has one Backends. Transcriber
// and Synthesizer are never nil and do not change after New.
type Backends struct {
	Transcriber speech.Transcriber
	Synthesizer speech.Synthesizer
	Names       [2]string // names of the Transcriber and the Synthesizer, as configured; "off" if disabled
	Missing     []error
	// prepare and close contain the functions of the backends that have something to prepare or to
	// close.
	prepare func()
	close   []func()
}

// New creates the backends that the setting config.Workers.Voice names. Each offline backend runs
// at most the given number of processes simultaneously. New fails if the settings are invalid, and
// names the settings in the error. It makes no request and starts no process.
func New(s config.Speech, processes int) (*Backends, error) {
	b := &Backends{Names: [2]string{s.TranscriptionModel, s.SpeechModel}, prepare: func() {}}
	if err := b.setUpTranscriber(s, processes); err != nil {
		return nil, err
	}
	if err := b.setUpSynthesizer(s, processes); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Off reports whether both transcription and synthesis are disabled.
func (b *Backends) Off() bool {
	return b.Names[0] == config.SpeechOff && b.Names[1] == config.SpeechOff
}

// Prepare starts processes in advance. It should be called when a transcription is expected soon.
// It returns immediately.
func (b *Backends) Prepare() { b.prepare() }

// Close releases the resources of the backends. No call of a backend may be in progress.
func (b *Backends) Close() {
	for _, end := range b.close {
		end()
	}
}

// setUpTranscriber creates the configured Transcriber. If the configured backend is unavailable, it
// sets a Transcriber whose calls fail with the reason.
func (b *Backends) setUpTranscriber(s config.Speech, processes int) error {
	name, online := strings.CutPrefix(s.TranscriptionModel, config.SpeechOpenAI)
	switch {
	case online:
		t, err := openaiaudio.NewTranscriber(openaiaudio.Config{Model: name, APIKey: s.AudioAPIKey, BaseURL: s.AudioBaseURL})
		if err != nil {
			return fmt.Errorf("reading TRANSCRIPTION_MODEL and AUDIO_BASE_URL: %w", err)
		}
		b.Transcriber, b.close = t, append(b.close, t.Close)
	case s.TranscriptionModel == config.OfflineListen:
		t, err := pocketsphinx.New(processes)
		if err != nil {
			b.Transcriber = b.missing(err)
			return nil
		}
		b.Transcriber, b.prepare, b.close = t, t.Prepare, append(b.close, t.Close)
	case s.TranscriptionModel == config.SpeechOff:
		b.Transcriber = speech.Unavailable{Why: "TRANSCRIPTION_MODEL is off"}
	default:
		return fmt.Errorf("unknown TRANSCRIPTION_MODEL: %q", s.TranscriptionModel)
	}
	return nil
}

// setUpSynthesizer creates the configured Synthesizer. If the configured backend is unavailable, it
// sets a Synthesizer whose calls fail with the reason.
func (b *Backends) setUpSynthesizer(s config.Speech, processes int) error {
	name, online := strings.CutPrefix(s.SpeechModel, config.SpeechOpenAI)
	switch {
	case online:
		y, err := openaiaudio.NewSynthesizer(openaiaudio.Config{
			Model: name, APIKey: s.AudioAPIKey, BaseURL: s.AudioBaseURL, Voice: s.SpeechVoice,
		})
		if err != nil {
			return fmt.Errorf("reading SPEECH_MODEL, SPEECH_VOICE and AUDIO_BASE_URL: %w", err)
		}
		b.Synthesizer, b.close = y, append(b.close, y.Close)
	case s.SpeechModel == config.OfflineSpeak:
		y, err := espeak.New(espeak.Config{Processes: processes, Voice: s.SpeechVoice})
		if err != nil {
			b.Synthesizer = b.missing(err)
			return nil
		}
		b.Synthesizer = y
	case s.SpeechModel == config.SpeechOff:
		b.Synthesizer = speech.Unavailable{Why: "SPEECH_MODEL is off"}
	default:
		return fmt.Errorf("unknown SPEECH_MODEL: %q", s.SpeechModel)
	}
	return nil
}

// missing records that a backend is unavailable, and returns a backend whose calls fail with the
// reason.
func (b *Backends) missing(err error) speech.Unavailable {
	b.Missing = append(b.Missing, err)
	return speech.Unavailable{Why: strings.TrimPrefix(err.Error(), "speech: ")}
}
