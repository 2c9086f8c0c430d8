package voice_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/testkit"
	"parley/workers/internal/speech"
)

const (
	opening = "The tower is tall. "
	middle  = "It stands in Paris, which is the capital of France, and it was built in the year 1889. "
	closing = "Many people visit it [1]."
)

func TestSay(t *testing.T) {
	t.Parallel()
	svc := start(t, defaultScript())
	l := svc.open(contract.VoiceOpen{Config: contract.VoiceConfig{Voice: "alloy"}})
	at := 0
	for _, delta := range []string{opening, middle[:30], middle[30:], closing} {
		l.say("a1", delta, at, false)
		at += len(delta)
	}
	want := func(text string, start, end int) {
		t.Helper()
		r := l.want(contract.VoiceSegment)
		if r.Start != start || r.End != end || r.Samples != int64(len(text)*10*ms) || r.Answer != "a1" {
			t.Errorf("%+v, not %d to %d", r, start, end)
		}
		if n := len(l.pcm(0)); n < int(r.Samples)*2 {
			t.Errorf("reported with %d bytes sent", n)
		}
	}
	want(strings.TrimSpace(opening), 0, len(opening))
	want(strings.TrimSpace(middle), len(opening), len(opening+middle))
	l.say("a1", "", at, true)
	want("Many people visit it.", len(opening+middle), at)
	if r := l.want(contract.VoiceSaid); r.Answer != "a1" {
		t.Errorf("%+v", r)
	}
	said := slices.Concat(
		countingAudio(len(strings.TrimSpace(opening))*10*ms), countingAudio(len(strings.TrimSpace(middle))*10*ms), countingAudio(len("Many people visit it.")*10*ms),
	)
	if !bytes.Equal(l.pcm(0), said) {
		t.Error("the sound is another")
	}
	for _, a := range l.audio["a1"] {
		if a.End <= a.Start || a.End > at {
			t.Errorf("of the bytes %d to %d", a.Start, a.End)
		}
	}
	l.say("a1", "More, of what is over.", at, true)
	l.say("a2", "", 0, true)
	if r := l.want(contract.VoiceSaid); r.Answer != "a2" {
		t.Errorf("%+v", r)
	}
	secret(t, svc, "tower", "Paris")
}

// TestNothingToSay: segments without words are reported in order and have no audio.
func TestNothingToSay(t *testing.T) {
	t.Parallel()
	l := start(t, defaultScript()).open(contract.VoiceOpen{})
	text := "See this code:\n\n```go\nx := 1\n```\nThat is it."
	l.say("a1", text, 0, true)
	for n, want := range []int64{int64(len("See this code:") * 10 * ms), 0, int64(len("That is it.") * 10 * ms)} {
		if r := l.want(contract.VoiceSegment); r.Samples != want {
			t.Errorf("%d: %+v", n, r)
		}
	}
	l.want(contract.VoiceSaid)
}

// TestStop: when an answer is stopped, no more of its audio arrives, and the next answer is spoken.
func TestStop(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	s := defaultScript()
	s.say = func(ctx context.Context, segment speech.Line, out func([]byte) error) error {
		if segment.Text != "It goes on and on." {
			return out(countingAudio(100 * ms))
		}
		if err := out(countingAudio(30_000 * ms)); err != nil {
			return err
		}
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	l := start(t, s).open(contract.VoiceOpen{})
	l.say("a1", "It goes on and on.", 0, true)
	<-begun
	l.say("a2", "Another one.", 0, true)
	l.send(contract.VoiceCommand{Type: contract.VoiceStop, Answer: "a1"})
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	l.say("a1", " More.", 18, true) // the ingress sent this text before it stopped the answer
	if r := l.want(contract.VoiceSegment); r.Answer != "a2" {
		t.Errorf("%+v", r)
	}
	l.want(contract.VoiceSaid)
	sent := len(l.audio["a1"])
	l.send(contract.VoiceCommand{Type: contract.VoiceStop, Answer: "a2"}) // this answer has already finished
	l.send(contract.VoiceCommand{Type: contract.VoiceStop, Answer: "none"})
	if r, ok := l.report(300 * time.Millisecond); ok || len(l.audio["a1"]) != sent {
		t.Errorf("%+v, %d frames", r, len(l.audio["a1"])-sent)
	}
	if n := len(l.pcm(0)) / 2; n > 5*rate {
		t.Errorf("%d samples were sent at once", n)
	}
}

// TestAhead: audio is sent up to four seconds ahead of playback. Beyond that, only one further
// segment is synthesized.
func TestAhead(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var made []string
	s := defaultScript()
	s.say = func(_ context.Context, segment speech.Line, out func([]byte) error) error {
		mu.Lock()
		made = append(made, segment.Text)
		mu.Unlock()
		for range 50 { // 5 s
			if err := out(countingAudio(100 * ms)); err != nil {
				return err
			}
		}
		return nil
	}
	l := start(t, s).open(contract.VoiceOpen{})
	began := time.Now()
	l.say("a1", opening+middle+middle+middle, 0, true)
	l.want(contract.VoiceSegment)
	took := time.Since(began)
	if sent := len(l.pcm(0)) / 2; took < 900*time.Millisecond || took > testkit.Scaled(3*time.Second) || sent > 5200*ms {
		t.Errorf("5 s were sent in %v, and %d samples in all", took, sent)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(made) < 2 || len(made) > 3 {
		t.Errorf("%d segments were made: %q", len(made), made)
	}
}

// TestTakeOver: another worker continues an answer in the middle of a segment. It produces the same
// audio as the first worker would have produced.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	l := start(t, defaultScript()).open(contract.VoiceOpen{})
	const had = 400 * ms
	text := middle + closing
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a1", Text: text, Start: len(opening), Last: true, Skip: had})
	first := len(strings.TrimSpace(middle)) * 10 * ms
	if r := l.want(contract.VoiceSegment); r.Samples != int64(first) || r.Start != len(opening) || r.End != len(opening+middle) {
		t.Errorf("%+v", r)
	}
	if r := l.want(contract.VoiceSegment); r.End != len(opening+text) {
		t.Errorf("%+v", r)
	}
	l.want(contract.VoiceSaid)
	if want := slices.Concat(countingAudio(first)[2*had:], countingAudio(len("Many people visit it.")*10*ms)); !bytes.Equal(l.pcm(had), want) {
		t.Error("the sound is another")
	}
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a2", Text: "Short.", Last: true, Skip: 10_000 * ms})
	if r := l.want(contract.VoiceSegment); r.Samples != 10_000*ms || len(l.audio["a2"]) != 0 {
		t.Errorf("%+v", r)
	}
	l.want(contract.VoiceSaid)
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a3", Text: "One part. "})
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a3", Text: "part. And more", Start: 4, Last: true}) // overlaps the text already sent
	if r := l.want(contract.VoiceSegment); r.End != 10 {
		t.Errorf("%+v", r)
	}
	if r := l.want(contract.VoiceSegment); r.Start != 10 || r.End != 18 {
		t.Errorf("%+v", r)
	}
	l.want(contract.VoiceSaid)
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a4", Text: "One part. "})
	l.send(contract.VoiceCommand{Type: contract.VoiceSay, Answer: "a4", Text: "Missing.", Start: 40, Last: true})
	if r := l.want(contract.VoiceFailed); r.Answer != "a4" || r.Failure.Code != speech.CodeSpeech {
		t.Errorf("%+v", r)
	}
}

func TestSpeechFailures(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := defaultScript()
	s.say = func(_ context.Context, segment speech.Line, out func([]byte) error) error {
		n := calls.Add(1)
		switch segment.Text {
		case "Fails once.":
			if err := out(countingAudio(300 * ms)[:2*int(n)*100*ms]); err != nil {
				return err
			}
			if n == 1 {
				return &speech.Error{Code: speech.CodeOverloaded, Message: "Busy.", Retryable: true}
			}
			return out(countingAudio(300 * ms)[2*200*ms:])
		case "Always busy.":
			return &speech.Error{Code: speech.CodeOverloaded, Message: "Busy.", Retryable: true}
		case "It panics.":
			panic("a secret")
		}
		if segment.Voice != "" || segment.Language != "" {
			if segment.Voice != "" {
				return &speech.Error{Code: speech.CodeUnknownVoice, Message: "No such voice."}
			}
			return &speech.Error{Code: speech.CodeUnknownLanguage, Message: "Not spoken."}
		}
		return out(countingAudio(50 * ms))
	}
	svc := start(t, s)
	l := svc.open(contract.VoiceOpen{})
	l.say("a1", "Fails once.", 0, true)
	if r := l.want(contract.VoiceSegment); r.Samples != 300*ms || !bytes.Equal(l.pcm(0), countingAudio(300*ms)) {
		t.Errorf("%+v, %d bytes", r, len(l.pcm(0)))
	}
	l.want(contract.VoiceSaid)
	calls.Store(0)
	for text, want := range map[string]string{"Always busy.": "overloaded Busy.", "It panics.": "speech_failed Speech synthesis of the answer failed."} {
		l.say(text, text+" "+middle, 0, false)
		if r := l.want(contract.VoiceFailed); r.Answer != text || r.Failure.Code+" "+r.Failure.Message != want {
			t.Errorf("%+v %+v", r, r.Failure)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls", n)
	}
	l.send(contract.VoiceCommand{Type: contract.VoiceConfigure, Config: &contract.VoiceConfig{Voice: "nobody", Language: "xx"}})
	l.say("a5", "The voice is unknown.", 0, true)
	for _, param := range []string{"voice", "language"} {
		if r := l.want(contract.VoiceFailed); r.Answer != "" || r.Failure.Param != param || r.Failure.Code != "unknown_"+param {
			t.Errorf("%+v %+v", r, r.Failure)
		}
	}
	l.want(contract.VoiceSegment)
	l.want(contract.VoiceSaid)
	secret(t, svc, "a secret", "Always busy")
}

// TestBargeIn: the start of speech is reported while an answer is spoken. When the answer is
// stopped, the next answer starts immediately.
func TestBargeIn(t *testing.T) {
	t.Parallel()
	s := defaultScript()
	s.say = func(_ context.Context, _ speech.Line, out func([]byte) error) error {
		return out(countingAudio(30_000 * ms))
	}
	l := start(t, s).open(contract.VoiceOpen{Config: contract.VoiceConfig{Detection: detection}})
	l.say("a1", "A long answer.", 0, true)
	l.sendAudio(quiet(400))
	l.until("the answer", func() bool { return len(l.audio["a1"]) > 30 })
	l.sendAudio(speechFor(t))
	began := time.Now()
	l.want(contract.VoiceStarted)
	l.send(contract.VoiceCommand{Type: contract.VoiceStop, Answer: "a1"})
	l.say("a2", "Yes?", 0, true)
	l.until("the next answer", func() bool { return len(l.audio["a2"]) > 10 })
	t.Logf("%v from speech to the next answer's sound", time.Since(began))
	if behind := l.order[slices.Index(l.order, "a2"):]; slices.Contains(behind, "a1") {
		t.Errorf("frames of the stopped answer arrived after the next answer: %v", behind)
	}
}

func TestManySessions(t *testing.T) {
	t.Parallel()
	svc := start(t, defaultScript())
	var all sync.WaitGroup
	for n := range 8 {
		l := svc.open(contract.VoiceOpen{Line: fmt.Sprint("line_", n), Config: contract.VoiceConfig{Detection: detection}})
		all.Go(func() {
			for m := range 3 {
				l.say(fmt.Sprint("a", m), "Hello there.", 0, true)
				l.sendAudio(quiet(600))
			}
			for range 6 {
				if r, ok := l.report(wait); !ok || r.Type != contract.VoiceSegment && r.Type != contract.VoiceSaid {
					t.Errorf("%d: %+v", n, r)
				}
			}
		})
	}
	all.Wait()
}
