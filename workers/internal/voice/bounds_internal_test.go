package voice

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/contract"
	"parley/workers/internal/speech"
)

// newStuckSession returns a session whose backend never responds. The session runs in the goroutine
// of the test.
func newStuckSession(t *testing.T) (*session, *fakeEnd) {
	t.Helper()
	s, err := New(Config{MaxSessions: 1}, Deps{Metrics: prometheus.NewRegistry(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	r := &fakeEnd{}
	l := newSession(s, r, contract.VoiceOpen{})
	l.opened = time.Now().Add(-time.Hour)
	l.call = func(func(context.Context, func())) context.CancelFunc { return func() {} }
	return l, r
}

// failures returns how often the session has reported each item as failed because of a limit.
func (r *fakeEnd) failures(t *testing.T) map[string]int {
	t.Helper()
	reported := map[string]int{}
	for _, report := range r.reports {
		if report.Type != contract.VoiceFailed {
			continue
		}
		if report.Failure.Code != speech.CodeOverloaded {
			t.Errorf("%+v", report.Failure)
		}
		reported[report.Item]++
	}
	return reported
}

// TestMemoryIsBounded: the memory of a session is limited, regardless of the frames and commands
// that an ingress sends. The session reports the utterances that it drops.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ each, count, fail int64 }{
		"what fits":        {rate, maxWaiting, 0},
		"many short ones":  {rate / 10, 200, 200 - maxWaiting},
		"much for too few": {16 * rate, 200, 200 - 19}, // one utterance is transcribed, and 18 wait in 300 s of audio
		"one by one":       {rate, 1000, -1},
	} {
		l, r := newStuckSession(t)
		second := make([]byte, sampleBytes*rate)
		for n := range c.count {
			for at := int64(0); at < c.each; at += rate {
				l.handleAudio(n*c.each+at, second[:sampleBytes*min(rate, c.each)])
			}
			l.commit(&contract.VoiceCommand{Item: fmt.Sprint(n), From: n * c.each, To: (n + 1) * c.each})
			in := &l.input
			if kept := in.tape.end() - in.tape.start; len(in.waiting) > maxWaiting || kept > maxTape || cap(in.tape.pcm) > 3*sampleBytes*maxTape {
				t.Fatalf("%s: %d wait, %d s are kept in %d bytes", name, len(in.waiting), kept/rate, cap(in.tape.pcm))
			}
			if needs := in.needs(); needs < in.tape.start || needs < in.tape.end()-maxTape {
				t.Fatalf("%s: %d is needed of %d", name, needs, in.tape.start)
			}
		}
		reported := r.failures(t)
		if c.fail >= 0 && int64(len(reported)) != c.fail || int64(len(reported)+len(l.input.waiting)) != c.count {
			t.Errorf("%s: %d of %d failed, %d wait", name, len(reported), c.count, len(l.input.waiting))
		}
		for _, u := range l.input.waiting {
			reported[u.item]++
		}
		for item, times := range reported {
			if times != 1 {
				t.Errorf("%s: %s was reported %d times", name, item, times)
			}
		}
	}
}

// TestUncommittedAudioIsBounded: the amount of audio that is not committed is limited, even in the
// first seconds of a session.
func TestUncommittedAudioIsBounded(t *testing.T) {
	t.Parallel()
	l, _ := newStuckSession(t)
	l.opened = time.Now().Add(time.Hour)
	second := make([]byte, sampleBytes*rate)
	for n := range int64(1000) {
		l.handleAudio(n*rate, second)
	}
	if kept := l.input.tape.end() - l.input.tape.start; kept != maxTape || cap(l.input.tape.pcm) > 3*sampleBytes*maxTape {
		t.Errorf("%d s, %d bytes", kept/rate, cap(l.input.tape.pcm))
	}
}

// TestARetryIsOfTheWhole: a retry transcribes the same audio as the first call, even after the
// session has dropped the audio from its tape.
func TestARetryIsOfTheWhole(t *testing.T) {
	t.Parallel()
	l, r := newStuckSession(t)
	second := make([]byte, sampleBytes*rate)
	l.handleAudio(0, second)
	l.commit(&contract.VoiceCommand{Item: "a", To: rate})
	u := l.input.waiting[0]
	for n := range int64(400) {
		l.handleAudio((n+1)*rate, second)
	}
	l.handleTranscript(transcript{of: u, err: &speech.Error{Code: speech.CodeTranscription, Message: "Again.", Retryable: true}})
	if u.tries != 2 || len(u.pcm) != sampleBytes*rate || len(r.failures(t)) > 0 {
		t.Errorf("%d tries, %d bytes, %v", u.tries, len(u.pcm), r.failures(t))
	}
}

// TestPositionsOfASession: a session can be opened at the lowest and at the highest position in its
// audio.
func TestPositionsOfASession(t *testing.T) {
	t.Parallel()
	d := &contract.VoiceDetection{Threshold: 1, PrefixMS: 60_000, SilenceMS: 60_000}
	for _, open := range []contract.VoiceOpen{
		{Position: contract.MaxVoiceSample, Config: contract.VoiceConfig{Detection: d}},
		{Position: contract.MaxVoiceSample, Config: contract.VoiceConfig{Detection: d}, Speech: &contract.VoiceSpeech{}},
		{Config: contract.VoiceConfig{Detection: d}, Speech: &contract.VoiceSpeech{From: contract.MaxVoiceSample}},
	} {
		l, _ := newStuckSession(t)
		l.input = newInput(open)
		l.handleAudio(contract.MaxVoiceSample, make([]byte, sampleBytes*rate))
		l.commit(&contract.VoiceCommand{From: contract.MaxVoiceSample, To: 0}) // From is after To
		if needs := l.input.needs(); needs < 0 || needs > contract.MaxVoiceSample+rate {
			t.Errorf("%+v: needs %d", open, needs)
		}
	}
}

// TestCallsHaveTheirOwnTime: the time that a call waits for its turn is not part of its time limit.
func TestCallsHaveTheirOwnTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ begins, ends time.Duration }{
		"at once":           {0, callTime},
		"after a long wait": {waitTime - time.Second, waitTime - time.Second + callTime},
		"never":             {-1, waitTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, begun, cancel := limited(t.Context())
			defer cancel()
			if c.begins >= 0 {
				time.AfterFunc(c.begins, func() {
					begun()
					time.AfterFunc(time.Second, begun) // the second call has no effect
				})
			}
			<-ctx.Done()
			if took := time.Since(start); took != c.ends {
				t.Errorf("%s: %v, not %v", name, took, c.ends)
			}
			if err := outcome(ctx, ctx.Err()); !errors.Is(err, context.DeadlineExceeded) || outcome(ctx, nil) != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, begun, cancel := limited(t.Context())
		begun()
		cancel()
		if err := outcome(ctx, ctx.Err()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		begun()
	})
}
