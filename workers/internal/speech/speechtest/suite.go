package speechtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/workers/internal/speech"
)

// Pair is a Synthesizer and a Transcriber. The Transcriber recognizes the speech of the
// Synthesizer.
type Pair struct {
	speech.Transcriber
	speech.Synthesizer
	Sentence string       // a sentence that is transcribed word for word
	Close    func()       // closes both
	Left     func() []int // function that returns the processes that are still alive; nil if the backends start no processes
}

// answerTime is the maximum time in which a cancelled call must return. It allows for the delays of
// a busy machine.
const answerTime = 2500 * time.Millisecond

// Run tests the pairs that open creates. The tests run one after the other, because they count
// processes.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, p Pair)
	}{
		{"synthesized speech is understood", understood},
		{"sound consists of whole samples and arrives in pieces", pieces},
		{"speed", speed},
		{"nothing to say", nothingToSay},
		{"audio without speech", nothingSaid},
		{"text that looks like commands", hostile},
		{"too much", tooMuch},
		{"voices", voices},
		{"the listener fails", listenerFails},
		{"a listener is slow", listenerIsSlow},
		{"synthesis is cancelled", speakingCalledOff},
		{"transcription is cancelled", listeningCalledOff},
		{"many simultaneous calls", manyAtOnce},
	} {
		t.Run(part.name, func(t *testing.T) {
			p := open(t)
			part.run(t, p)
			p.Close()
			if p.Left == nil {
				return
			}
			if left := p.Left(); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// Say returns the complete audio of a line.
func Say(ctx context.Context, s speech.Synthesizer, line speech.Line) ([]byte, error) {
	var sound []byte
	err := s.Synthesize(ctx, line, func(piece []byte) error {
		if len(piece) == 0 || len(piece)%2 != 0 {
			return fmt.Errorf("a piece of audio has an invalid size: %d bytes", len(piece))
		}
		sound = append(sound, piece...)
		return nil
	})
	return sound, err
}

func said(t *testing.T, p Pair, line speech.Line) []byte {
	t.Helper()
	sound, err := Say(t.Context(), p, line)
	if err != nil {
		t.Fatalf("saying %+.60v: %v", line, err)
	}
	return sound
}

func understood(t *testing.T, p Pair) {
	t.Helper()
	begun := 0
	begins := func() { begun++ }
	sound := said(t, p, speech.Line{Text: p.Sentence, Organization: "org_1", Begun: begins})
	got, err := p.Transcribe(t.Context(), speech.Utterance{PCM: sound, Language: "en", Prompt: "words", Organization: "org_1", Begun: begins})
	if begun != 2 {
		t.Errorf("%d calls reported their start, want 2", begun)
	}
	if err != nil || !strings.EqualFold(got, p.Sentence) {
		t.Errorf("transcript %q, %v; want %q", got, err, p.Sentence)
	}
}

func pieces(t *testing.T, p Pair) {
	t.Helper()
	count, size := 0, 0
	err := p.Synthesize(t.Context(), speech.Line{Text: strings.Repeat(p.Sentence+". ", 8)}, func(piece []byte) error {
		count, size = count+1, size+len(piece)
		if len(piece) == 0 || len(piece)%2 != 0 {
			t.Errorf("a piece of audio has an invalid size: %d bytes", len(piece))
		}
		return nil
	})
	if seconds := size / speech.BytesPerSecond; err != nil || count < 2 || seconds < 4 || seconds > 60 {
		t.Errorf("%d pieces with a total of %d seconds, %v", count, seconds, err)
	}
}

func speed(t *testing.T, p Pair) {
	t.Helper()
	normal, fast := said(t, p, speech.Line{Text: p.Sentence}), said(t, p, speech.Line{Text: p.Sentence, Speed: 2})
	if len(fast)*10 > len(normal)*8 || len(fast) == 0 {
		t.Errorf("%d bytes at normal speed, and %d at twice the speed", len(normal), len(fast))
	}
	if one := said(t, p, speech.Line{Text: p.Sentence, Speed: 1}); !bytes.Equal(one, normal) {
		t.Errorf("a speed of 1 differs from the default speed")
	}
}

func nothingToSay(t *testing.T, p Pair) {
	t.Helper()
	for _, text := range []string{"", " ", "\n\t", "\x00\x1b", "...", "-- !", "\u200b\ufeff"} {
		if sound := said(t, p, speech.Line{Text: text}); len(sound) > 0 {
			t.Errorf("%q was synthesized as %d bytes of audio", text, len(sound))
		}
	}
}

func nothingSaid(t *testing.T, p Pair) {
	t.Helper()
	for _, size := range []int{0, 2, 200, speech.BytesPerSecond} {
		if got, err := p.Transcribe(t.Context(), speech.Utterance{PCM: make([]byte, size)}); got != "" || err != nil {
			t.Errorf("transcribing %d bytes of silence returned %q, %v", size, got, err)
		}
	}
}

// hostile tests texts that a program could mistake for commands.
func hostile(t *testing.T, p Pair) {
	t.Helper()
	for _, text := range []string{
		"hello\x00 \x1b[31mthere\x07\r\n\r\nyou",
		`<speak><break time="9000s"/><audio src="file:///etc/passwd"/>hello</speak>`,
		"[[h@'loU]] hello [[", "-v none --help", "$(exit 1); `exit 1` | hello", "hello \xff\xfe there", "привет 你好 مرحبا 🙂", "\u202ehello\u2066",
	} {
		if sound := said(t, p, speech.Line{Text: text}); len(sound) == 0 || len(sound) > 60*speech.BytesPerSecond {
			t.Errorf("%q was synthesized as %d bytes of audio", text, len(sound))
		}
	}
}

func tooMuch(t *testing.T, p Pair) {
	t.Helper()
	isError := func(what, code string, err error) {
		e, is := errors.AsType[*speech.Error](err)
		if !is || e.Code != code || e.Message == "" || e.Retryable {
			t.Errorf("%s: %+v", what, err)
		}
	}
	for what, line := range map[string]speech.Line{
		"a long text": {Text: strings.Repeat("word ", speech.MaxText/5) + "word"}, "too fast": {Text: "hello", Speed: 4.1},
		"too slow": {Text: "hello", Speed: 0.2}, "backwards": {Text: "hello", Speed: -1},
	} {
		sound, err := Say(t.Context(), p, line)
		if isError(what, speech.CodeSpeech, err); len(sound) > 0 {
			t.Errorf("%s: the call returned %d bytes of sound, want none", what, len(sound))
		}
	}
	if sound := said(t, p, speech.Line{Text: strings.Repeat("a", speech.MaxText)}); len(sound) == 0 {
		t.Errorf("a text of the maximum length has no sound")
	}

	_, err := p.Transcribe(t.Context(), speech.Utterance{PCM: make([]byte, 3)})
	isError("half a sample", speech.CodeTranscription, err)
	_, err = p.Transcribe(t.Context(), speech.Utterance{PCM: make([]byte, speech.MaxUtterance+2)})
	isError("a long utterance", speech.CodeTranscription, err)
}

func voices(t *testing.T, p Pair) {
	t.Helper()
	for _, voice := range []string{"alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse"} {
		if sound := said(t, p, speech.Line{Text: "one", Voice: voice}); len(sound) == 0 {
			t.Errorf("%s says nothing", voice)
		}
	}
	for _, voice := range []string{"no-such-voice", "../../etc/passwd", "en-us+../f3", "-v", "alloy\n", "ALLOY;", strings.Repeat("a", 5000)} {
		for _, text := range []string{"one", ""} {
			_, err := Say(t.Context(), p, speech.Line{Text: text, Voice: voice})
			if (text != "" || err != nil) && !errors.Is(err, speech.ErrUnknownVoice) {
				t.Errorf("saying %q with the voice %.30q: %v", text, voice, err)
			}
		}
	}
}

func listenerFails(t *testing.T, p Pair) {
	t.Helper()
	gone, calls := errors.New("the listener is gone"), 0
	err := p.Synthesize(t.Context(), speech.Line{Text: strings.Repeat(p.Sentence+". ", 8)}, func([]byte) error {
		calls++
		return gone
	})
	if !errors.Is(err, gone) || calls != 1 {
		t.Errorf("the error is %v after %d calls", err, calls)
	}
}

// listenerIsSlow checks that a listener who receives audio at the pace of speech does not block
// other calls. One listener waits until all others have received their audio.
func listenerIsSlow(t *testing.T, p Pair) {
	t.Helper()
	begun, served, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := Say(t.Context(), slowListener{p, func() { once.Do(func() { close(begun); <-served }) }}, speech.Line{Text: p.Sentence})
		ended <- err
	}()
	<-begun
	for range 4 {
		said(t, p, speech.Line{Text: p.Sentence})
	}
	close(served)
	if err := <-ended; err != nil {
		t.Errorf("the slow listener received %v", err)
	}
}

// slowListener is a Synthesizer that calls the function do for each piece of audio, to delay the
// receipt of the audio.
type slowListener struct {
	speech.Synthesizer
	do func()
}

func (w slowListener) Synthesize(ctx context.Context, line speech.Line, out func([]byte) error) error {
	return w.Synthesizer.Synthesize(ctx, line, func(piece []byte) error {
		w.do()
		return out(piece)
	})
}

func speakingCalledOff(t *testing.T, p Pair) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var at time.Time
	err := p.Synthesize(ctx, speech.Line{Text: strings.Repeat(p.Sentence+". ", 30)}, func([]byte) error {
		if at.IsZero() {
			at = time.Now()
			cancel()
		}
		return nil
	})
	if took := time.Since(at); !errors.Is(err, context.Canceled) || took > answerTime {
		t.Errorf("%v after %s", err, took)
	}
	err = p.Synthesize(ctx, speech.Line{Text: p.Sentence}, func([]byte) error { return errors.New("a piece") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("synthesis that was cancelled before it began: %v", err)
	}
}

func listeningCalledOff(t *testing.T, p Pair) {
	t.Helper()
	sound := bytes.Repeat(said(t, p, speech.Line{Text: p.Sentence}), 20)
	sound = sound[:min(len(sound), speech.MaxUtterance)]
	const after = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	began := time.Now()
	_, err := p.Transcribe(ctx, speech.Utterance{PCM: sound})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > after+answerTime {
		t.Errorf("%v after %s", err, took)
	}
	if _, err := p.Transcribe(ctx, speech.Utterance{PCM: sound}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("transcription that was cancelled before it began: %v", err)
	}
}

func manyAtOnce(t *testing.T, p Pair) {
	t.Helper()
	want := said(t, p, speech.Line{Text: p.Sentence})
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if sound, err := Say(t.Context(), p, speech.Line{Text: p.Sentence}); err != nil || !bytes.Equal(sound, want) {
				t.Errorf("%d bytes of sound, want %d: %v", len(sound), len(want), err)
			}
			if n%3 > 0 {
				return
			}
			if got, err := p.Transcribe(t.Context(), speech.Utterance{PCM: want}); err != nil || !strings.EqualFold(got, p.Sentence) {
				t.Errorf("understood %q, %v", got, err)
			}
		})
	}
	all.Wait()
}
