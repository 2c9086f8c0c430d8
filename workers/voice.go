package workers

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"parley/shared/config"
	"parley/shared/secrets"
	"parley/workers/internal/speech/backends"
	"parley/workers/internal/voice"
)

// sessionsPerCore is the default number of voice sessions per core. A session mostly waits for
// audio and for its speech backends.
const sessionsPerCore = 100

// voiceParts contains the parts of a process with the role voice. backends is never nil.
type voiceParts struct {
	backends *backends.Backends
	server   *voice.Server // nil if both transcription and synthesis are disabled
}

// newBackends opens the configured speech backends. The offline backends use at most one process
// per core.
func newBackends(cfg Config) (*backends.Backends, error) {
	b, err := backends.New(cfg.Voice(), runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, fmt.Errorf("setting up speech: %w", err)
	}
	return b, nil
}

// setUpVoice sets up voice sessions. If a speech backend is unavailable, setUpVoice logs this, and
// callers that need the backend receive an error. If both transcription and synthesis are disabled,
// this process accepts no voice sessions, so that other workers receive them.
func (w *Workers) setUpVoice() error {
	b, err := newBackends(w.cfg)
	if err != nil {
		return err
	}
	w.speech = &voiceParts{backends: b}
	for _, missing := range b.Missing {
		w.deps.Log.Warn().Err(missing).Msg("voice is only partly configured")
	}

	// A process without a voice server does not receive sessions from the bus.
	if b.Off() {
		return nil
	}

	signer, err := secrets.NewSigner(w.cfg.SecretsKey)
	if err != nil {
		return fmt.Errorf("reading SECRETS_KEY: %w", err)
	}

	slots := w.cfg.VoiceConcurrency
	if slots == 0 {
		slots = sessionsPerCore * runtime.GOMAXPROCS(0)
	}

	w.speech.server, err = voice.New(voice.Config{MaxSessions: slots, Transcription: b.Names[0]}, voice.Deps{
		Bus: w.deps.Bus, Transcriber: b.Transcriber, Synthesizer: b.Synthesizer, Prepare: b.Prepare,
		Verifier: signer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return err
}

// voiceCapability describes the speech backends. If a backend is unavailable, the entry states the
// reason.
func voiceCapability(b *backends.Backends) Capability {
	if err := errors.Join(b.Missing...); err != nil {
		return Capability{Name: "voice", State: strings.TrimPrefix(strings.ReplaceAll(oneLine(err), " speech: ", "; "), "speech: ")}
	}
	if b.Off() {
		return Capability{Name: "voice", State: config.SpeechOff}
	}
	spoken, heard := strings.TrimPrefix(b.Names[1], "offline/"), strings.TrimPrefix(b.Names[0], "offline/")
	return Capability{Name: "voice", State: spoken + ", " + heard, Ok: true}
}

// surveyVoice describes the speech backends for the settings. If the settings are invalid, the
// entry contains the error.
func surveyVoice(cfg Config) Capability {
	b, err := newBackends(cfg)
	if err != nil {
		return Capability{Name: "voice", State: oneLine(err)}
	}
	defer b.Close()
	return voiceCapability(b)
}
