package backends_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"parley/shared/config"
	"parley/workers/internal/speech"
	"parley/workers/internal/speech/backends"
	"parley/workers/internal/speech/espeak"
	"parley/workers/internal/speech/pocketsphinx"
	"parley/workers/internal/speech/speechtest"
)

func open(t *testing.T, s config.Speech) *backends.Backends {
	t.Helper()
	b, err := backends.New(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Missing) > 0 {
		t.Fatal(errors.Join(b.Missing...))
	}
	return b
}

func TestOfflineBackendsConform(t *testing.T) { //nolint:paralleltest // it counts processes
	for _, program := range []string{espeak.Program, pocketsphinx.Program} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: offline speech, for there is no %s (scripts/setup test installs it)", program)
		}
	}
	speechtest.Run(t, func(t *testing.T) speechtest.Pair {
		t.Helper()
		b := open(t, config.Speech{TranscriptionModel: config.OfflineListen, SpeechModel: config.OfflineSpeak})
		b.Prepare()
		return speechtest.Pair{
			Transcriber: b.Transcriber, Synthesizer: b.Synthesizer, Sentence: "hello how are you today", Close: b.Close,
			Left: func() []int { return speechtest.Children(espeak.Program, pocketsphinx.Program) },
		}
	})
}

func TestServiceBackendsConform(t *testing.T) { //nolint:paralleltest // the suite's parts run in order
	speechtest.Run(t, func(t *testing.T) speechtest.Pair {
		t.Helper()
		b := open(t, config.Speech{
			TranscriptionModel: "openai/listener", SpeechModel: "openai/speaker", AudioBaseURL: speechtest.NewService(t).URL, AudioAPIKey: speechtest.Key,
		})
		return speechtest.Pair{Transcriber: b.Transcriber, Synthesizer: b.Synthesizer, Sentence: "where is my order", Close: b.Close}
	})
}

func TestMissingBackendsAreReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b, err := backends.New(config.Speech{TranscriptionModel: config.OfflineListen, SpeechModel: config.OfflineSpeak}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	text := errors.Join(b.Missing...).Error()
	const want = "speech: pocketsphinx is not installed (apt install pocketsphinx pocketsphinx-en-us)\nspeech: espeak-ng is not installed (apt install espeak-ng)"
	if text != want {
		t.Errorf("missing: %s", text)
	}
	_, err = b.Transcriber.Transcribe(t.Context(), speech.Utterance{PCM: []byte{0, 0}})
	refused(t, err, speech.CodeTranscription, "pocketsphinx is not installed")
	_, err = speechtest.Say(t.Context(), b.Synthesizer, speech.Line{Text: "hello"})
	refused(t, err, speech.CodeSpeech, "espeak-ng is not installed")
}

func TestDisabledBackendsAreReported(t *testing.T) {
	t.Parallel()
	b := open(t, config.Speech{TranscriptionModel: config.SpeechOff, SpeechModel: config.SpeechOff})
	defer b.Close()
	b.Prepare()
	if !b.Off() {
		t.Error("nothing is off")
	}
	_, err := b.Transcriber.Transcribe(t.Context(), speech.Utterance{PCM: []byte{0, 0}})
	refused(t, err, speech.CodeTranscription, "TRANSCRIPTION_MODEL is off")
	_, err = speechtest.Say(t.Context(), b.Synthesizer, speech.Line{Text: "hello"})
	refused(t, err, speech.CodeSpeech, "SPEECH_MODEL is off")
}

func refused(t *testing.T, err error, code, message string) {
	t.Helper()
	e, is := errors.AsType[*speech.Error](err)
	if !is || e.Code != code || e.Retryable || !strings.Contains(e.Message, message) {
		t.Errorf("%v", err)
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]config.Speech{
		"nothing":            {},
		"one":                {TranscriptionModel: config.SpeechOff},
		"no model":           {TranscriptionModel: "openai/", SpeechModel: config.SpeechOff},
		"a model with space": {TranscriptionModel: "openai/a b", SpeechModel: config.SpeechOff},
		"an address":         {TranscriptionModel: config.SpeechOff, SpeechModel: "openai/x", AudioBaseURL: "http://user:hunter2@host/v1"},
		"a voice":            {TranscriptionModel: "openai/x", SpeechModel: "openai/x", SpeechVoice: "a\nb"},
	} {
		b, err := backends.New(s, 1)
		if err == nil {
			b.Close()
			t.Errorf("%s was taken", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is shown: %v", name, err)
		}
	}
}
