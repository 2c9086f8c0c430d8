package espeak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/pcm"
	"parley/workers/internal/speech/process"
)

// Program is the program that is executed. Install is the command that installs it on Debian and
// Ubuntu.
const (
	Program = "espeak-ng"
	Install = "apt install espeak-ng"
)

const (
	wordsAMinute    = 155 // words per minute at speed 1
	minWordsAMinute = 80  // minimum number of words per minute that espeak-ng supports

	wall   = 30 * time.Second // time limit for one line; a line of 2,000 characters takes a quarter of a second
	cpu    = 20 * time.Second
	memory = 512 << 20

	disk     = 64 << 20 // must not be 0, because a library of espeak-ng allocates shared memory
	limit    = 64 << 20 // bytes of audio; 2,000 characters need less, even at a quarter of the speed
	queue    = 256      // number of lines of one organization that may wait
	maxQueue = 4 * queue
	pieceLen = 32 << 10
)

// Config configures a Synthesizer.
type Config struct {
	Processes int    // maximum number of simultaneous processes
	Voice     string // the voice of lines that name no voice; "" means alloy, in the line's language
}

// Synthesizer speaks lines. It is safe for concurrent use. A worker has at most one Synthesizer,
// for the life of its process.
type Synthesizer struct {
	// path is the absolute path of espeak-ng, and voice is Config.Voice.
	path  string
	voice string
	// slots limits the number of simultaneous processes.
	slots *process.Slots

	mu     sync.Mutex
	voices *voices // nil until they have been read
}

// New returns a Synthesizer. It fails if espeak-ng is not installed. It starts no process: the list
// of voices is read when the first line is spoken.
func New(cfg Config) (*Synthesizer, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return nil, fmt.Errorf("speech: espeak-ng is not installed (%s)", Install)
	}
	return &Synthesizer{path: path, voice: cfg.Voice, slots: process.NewSlots(cfg.Processes, queue, maxQueue)}, nil
}

// command returns the command that runs espeak-ng with the given arguments and with limits.
func (s *Synthesizer) command(args ...string) process.Command {
	return process.Command{Path: s.path, Args: args, Max: limit, CPU: cpu, Bytes: memory, Disk: disk}
}

// Synthesize speaks a line; see [speech.Synthesizer]. It calls the function out with pieces of
// audio while the process speaks. It returns the errors of out and ctx, and otherwise a
// *speech.Error. A line without text gives no audio and no error.
//
// A line whose speed is below 0.52 is spoken at 0.52. If ctx is canceled, the process is killed.
func (s *Synthesizer) Synthesize(ctx context.Context, line speech.Line, out func([]byte) error) error {
	line, err := speech.CleanLine(line)
	if err != nil {
		return err
	}

	if line.Voice == "" {
		line.Voice = s.voice
	}

	release, err := s.slots.Take(ctx, process.Turn{Organization: line.Organization})
	if err != nil {
		return err
	}
	speech.Begin(line.Begun)
	p, err := s.start(ctx, line)
	if err != nil || p == nil {
		release()
		return err
	}
	go func() { // free the slot when the process exits, because out may receive the audio only at the pace of speech
		<-p.Ended()
		release()
	}()
	defer p.Kill()
	defer p.Limit(wall)()
	defer context.AfterFunc(ctx, p.Kill)()

	err = relay(p.Reader(ctx), out)
	// An error of out is not an error of the process, so it is returned as it is.
	if own, is := errors.AsType[*outError](err); is {
		return own.error
	}
	if ctx.Err() != nil {
		return fmt.Errorf("synthesizing speech: %w", ctx.Err())
	}
	// No audio is not an error: espeak-ng may find nothing to speak in a text.
	if err != nil && !errors.Is(err, io.EOF) {
		return failed(err)
	}
	if err := p.Fault(); err != nil {
		return failed(err)
	}
	return nil
}

// start starts a process that speaks a line. It returns nil if the line contains nothing to speak.
// If the voice or the language is unknown, start fails with CodeUnknownVoice or CodeUnknownLanguage
// and starts no process.
func (s *Synthesizer) start(ctx context.Context, line speech.Line) (*process.Process, error) {
	voices, err := s.installedVoices(ctx)
	if err != nil {
		return nil, err
	}

	voice, err := voices.choose(line)
	if err != nil || line.Text == "" {
		return nil, err
	}

	speed := max(minWordsAMinute, int(math.Round(wordsAMinute*line.Speed)))
	p, err := process.Start(s.command("-v", voice, "-s", strconv.Itoa(speed), "-b", "1", "--stdin", "--stdout"))
	if err != nil {
		return nil, failed(err)
	}
	go func() { // write in the background, so that a program that does not read cannot block the caller
		_, _ = io.WriteString(p.Stdin, escapeText(line.Text))
		_ = p.Stdin.Close()
	}()
	return p, nil
}

// escapeText changes "[[" in a text, because espeak-ng interprets text in [[…]] as phonemes.
func escapeText(text string) string { return strings.ReplaceAll(text, "[[", "[ [") + "\n" }

// outError marks an error that the function out has returned.
type outError struct{ error }

// relay passes the audio to the function out as it arrives, converted to the rate speech.Rate. It
// returns io.EOF if no audio has arrived, and an outError if out fails.
func relay(r io.Reader, out func([]byte) error) error {
	rate, err := pcm.ReadWAV(r)
	if err != nil {
		return err
	}
	resampler, err := pcm.NewResampler(rate, speech.Rate)
	if err != nil {
		return err
	}

	// give calls the function out, unless the resampler has not returned any audio yet.
	give := func(sound []byte) error {
		if len(sound) == 0 {
			return nil
		}
		if err := out(sound); err != nil {
			return &outError{err}
		}
		return nil
	}

	piece := make([]byte, pieceLen)
	for {
		n, err := r.Read(piece)
		if errors.Is(err, io.EOF) {
			return give(resampler.Flush(nil))
		}
		if err != nil {
			return err
		}
		if err := give(resampler.Append(nil, piece[:n])); err != nil {
			return err
		}
	}
}

// failed returns the retryable error for a failure of espeak-ng. The argument why appears only in
// logs.
func failed(why error) error {
	return &speech.Error{
		Code: speech.CodeSpeech, Message: "Speech synthesis of the answer failed.", Retryable: true,
		Cause: fmt.Errorf("running espeak-ng: %w", why),
	}
}
