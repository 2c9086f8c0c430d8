package pocketsphinx

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"parley/workers/internal/speech"
)

func installed(t *testing.T) *Transcriber {
	t.Helper()
	p, err := New(1)
	if err != nil {
		t.Skipf("NOT TESTED: pocketsphinx (scripts/setup test installs it): %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestWords(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"one two three (3 -15442)\n": "one two three",
		"  a  b  (3 0)":              "a b",
		"(3 0)\n":                    "",
		" (3 -1)":                    "",
		"a (b) c (3 -1)\n":           "a (b) c",
		"":                           "!",
		"\n":                         "!",
		"one two":                    "!",
		"one (3 -1)\ntwo (3 -1)\n":   "!",
		"one (3 -1)\n\n":             "one",
	} {
		got, err := words(said)
		if e, is := errors.AsType[*speech.Error](err); want == "!" && (!is || e.Code != speech.CodeTranscription || !e.Retryable) || want != "!" && (got != want || err != nil) {
			t.Errorf("%q: %q, %v; want %q", said, got, err, want)
		}
	}
}

// The time limit of a caller must be longer than the time limit of the process.
func TestTheLongestUtteranceHasItsTime(t *testing.T) {
	t.Parallel()
	if maximum := limit(speech.MaxUtterance); maximum >= speech.CallTime || maximum < 120*time.Second {
		t.Errorf("%v of %v", maximum, speech.CallTime)
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	p := installed(t)
	for language, ok := range map[string]bool{"": true, "en": true, "EN-us": true, "de": false, "eng": false} {
		_, err := p.Transcribe(t.Context(), speech.Utterance{Language: language})
		if ok != (err == nil) || !ok && !errors.Is(err, speech.ErrUnknownLanguage) {
			t.Errorf("%q: %v", language, err)
		}
	}
}

// A waiting process may be killed when memory is short. The next utterance then uses another
// process.
func TestASpareThatDied(t *testing.T) {
	t.Parallel()
	p := installed(t)
	p.Prepare()
	p.spares.work.Wait()
	if len(p.spares.ready) != 1 {
		t.Fatalf("%d processes are ready, want 1", len(p.spares.ready))
	}
	dead := p.spares.ready[0]
	if err := syscall.Kill(dead.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-dead.Ended()
	if got, err := p.Transcribe(t.Context(), speech.Utterance{PCM: make([]byte, speech.BytesPerSecond)}); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSparesAreLimited(t *testing.T) {
	t.Parallel()
	p := installed(t)
	for range 10 {
		p.Prepare()
	}
	p.spares.work.Wait()
	if len(p.spares.ready) != 1 {
		t.Errorf("%d processes are ready, want 1", len(p.spares.ready))
	}
	spare := p.spares.ready[0]
	p.dismiss(spare)
	p.dismiss(spare)
	if len(p.spares.ready) != 0 || !ended(spare) {
		t.Error("one that was not used for long is still there")
	}
	p.Close()
	p.Prepare()
	p.spares.work.Wait()
	if len(p.spares.ready) != 0 {
		t.Error("a process was started after Close")
	}
}

func TestNoiseIsNotUnderstood(t *testing.T) {
	t.Parallel()
	p, source := installed(t), rand.New(rand.NewPCG(1, 2))
	hiss := make([]byte, speech.BytesPerSecond)
	for n := range hiss {
		hiss[n] = byte(source.IntN(3) - 1) // at most a hundredth of full scale
	}
	if got, err := p.Transcribe(t.Context(), speech.Utterance{PCM: hiss}); err != nil || len(got) > 20 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAMissingModel(t *testing.T) {
	t.Parallel()
	installed(t)
	dir := t.TempDir()
	if _, err := open(dir, 1); err == nil {
		t.Error("no model was needed")
	}
	for _, part := range []string{"en-us", "en-us.lm.bin", "cmudict-en-us.dict"} { // the files exist but their contents are invalid
		if err := os.WriteFile(filepath.Join(dir, part), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := open(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	_, err = p.Transcribe(t.Context(), speech.Utterance{PCM: []byte{0, 0}})
	if e, is := errors.AsType[*speech.Error](err); !is || e.Code != speech.CodeTranscription || e.Message == "" {
		t.Errorf("%v", err)
	}
}
