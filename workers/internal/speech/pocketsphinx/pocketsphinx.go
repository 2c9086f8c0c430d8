package pocketsphinx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/pcm"
	"parley/workers/internal/speech/process"
)

// Program is the program that is executed. Install is the command that installs the program and its
// model on Debian and Ubuntu.
const (
	Program = "pocketsphinx_batch"
	Install = "apt install pocketsphinx pocketsphinx-en-us"
)

const (
	modelFolder = "/usr/share/pocketsphinx/model/en-us"

	rate    = 16_000
	padding = 2 * rate / 4 // bytes of silence added before and after an utterance, because otherwise the first and last words are lost

	wall     = 45 * time.Second // added to twice the utterance's duration; an idle machine needs at most a quarter of the sum
	cpu      = 120 * time.Second
	memory   = 1 << 30
	maximum  = 64 << 10 // bytes of a transcript
	queue    = 64       // number of utterances of one organization that may wait
	maxQueue = 4 * queue
	long     = 15 * speech.BytesPerSecond // bytes; utterances longer than this leave one slot free for shorter ones
	idle     = 5 * time.Minute            // time for which a spare process waits for an utterance
	ready    = 4                          // maximum number of spare processes; each uses 95 MB
)

// Transcriber transcribes utterances. It is safe for concurrent use. A worker has at most one
// Transcriber. Close must be called at the end.
type Transcriber struct {
	// path and model are the paths of the program and of the folder with the acoustic model.
	path  string
	model string
	// processes is the maximum number of simultaneous transcriptions.
	processes int
	slots     *process.Slots
	spares    spares
}

// New returns a Transcriber with at most the given number of simultaneous processes. It fails if
// pocketsphinx or its model is not installed. It starts no process.
func New(processes int) (*Transcriber, error) {
	return open(modelFolder, processes)
}

// open returns a Transcriber that uses the acoustic model in the given folder; see New. Tests pass
// other folders.
func open(model string, processes int) (*Transcriber, error) {
	path, err := exec.LookPath(Program)
	if err == nil {
		for _, part := range []string{"en-us", "en-us.lm.bin", "cmudict-en-us.dict"} {
			_, missing := os.Stat(filepath.Join(model, part))
			err = errors.Join(err, missing)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("speech: pocketsphinx is not installed (%s)", Install)
	}
	return &Transcriber{path: path, model: model, processes: processes, slots: process.NewSlots(processes, queue, maxQueue)}, nil
}

// Transcribe returns the words of an utterance in lower case, without punctuation; see
// [speech.Transcriber]. A prompt has no effect. An utterance without audio has no words.
//
// Transcribe waits for a slot, up to the end of ctx. If ctx is canceled, the process is killed. A
// language other than English fails with the code for an unknown language. Other failures are
// retryable.
func (t *Transcriber) Transcribe(ctx context.Context, u speech.Utterance) (string, error) {
	if err := speech.CheckUtterance(u); err != nil {
		return "", err
	}

	if language, _, _ := strings.Cut(strings.ToLower(u.Language), "-"); language != "" && language != "en" {
		return "", &speech.Error{Code: speech.CodeUnknownLanguage, Message: "pocketsphinx supports only English."}
	}

	release, err := t.slots.Take(ctx, process.Turn{Organization: u.Organization, Long: len(u.PCM) > long})
	if err != nil || len(u.PCM) == 0 {
		if err == nil {
			release()
		}
		return "", err
	}
	defer release()
	speech.Begin(u.Begun)
	// Replace the process that this call uses, so that the next call finds a process that is ready.
	defer t.spare(min(t.processes, ready))

	l, err := t.take()
	if err != nil {
		return "", failed(err)
	}
	defer l.end()
	defer l.Limit(limit(len(u.PCM)))()
	defer context.AfterFunc(ctx, l.Kill)()

	said, err := l.transcribe(ctx, u.PCM)
	if ctx.Err() != nil {
		return "", fmt.Errorf("transcribing an utterance: %w", ctx.Err())
	}
	if err != nil {
		return "", failed(err)
	}
	return words(said)
}

// limit returns the time limit for an utterance of the given size. It is always shorter than
// speech.CallTime.
func limit(bytes int) time.Duration {
	return wall + 2*time.Duration(bytes)*time.Second/speech.BytesPerSecond
}

// transcribe passes audio to a waiting process (a listener) and returns the output of the process.
// The audio is surrounded by silence. ctx only stops the reading of the output; the caller kills
// the process.
func (l *listener) transcribe(ctx context.Context, sound []byte) (string, error) {
	lower, err := pcm.Resample(sound, speech.Rate, rate)
	if err != nil {
		return "", err
	}

	if err := l.sound.Truncate(int64(padding + len(lower) + padding)); err != nil {
		return "", fmt.Errorf("sending audio to pocketsphinx: %w", err)
	}
	if _, err := l.sound.WriteAt(lower, padding); err != nil {
		return "", fmt.Errorf("sending audio to pocketsphinx: %w", err)
	}

	// The list names one utterance: descriptor 3, which is a file below /dev/fd.
	if _, err := io.WriteString(l.Stdin, "3\n"); err != nil {
		return "", fmt.Errorf("sending audio to pocketsphinx: %w", errors.Join(err, l.Fault()))
	}
	if err := l.Stdin.Close(); err != nil {
		return "", fmt.Errorf("sending audio to pocketsphinx: %w", err)
	}

	said, err := io.ReadAll(l.Reader(ctx))
	if err != nil {
		return "", err
	}
	return string(said), l.Fault()
}

// words returns the words in the output of the program, which has the form "words (name score)".
// Other output is a failure.
func words(said string) (string, error) {
	line, rest, _ := strings.Cut(strings.TrimSpace(said), "\n")
	end := strings.LastIndexByte(line, '(')
	if end < 0 || strings.TrimSpace(rest) != "" {
		return "", failed(errors.New("no hypothesis"))
	}
	return strings.Join(strings.Fields(line[:end]), " "), nil
}

// failed returns the retryable error for a failure of pocketsphinx. The argument why appears only
// in logs.
func failed(why error) error {
	return &speech.Error{
		Code: speech.CodeTranscription, Message: "The speech could not be recognized.", Retryable: true,
		Cause: fmt.Errorf("running pocketsphinx: %w", why),
	}
}
