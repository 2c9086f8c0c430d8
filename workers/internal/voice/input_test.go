package voice_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/testkit"
	"parley/workers/internal/speech"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	var got atomic.Pointer[speech.Utterance]
	s := defaultScript()
	s.hear = func(_ context.Context, u speech.Utterance) (string, error) {
		got.Store(&u)
		return "the words", nil
	}
	svc := start(t, s)
	l := svc.open(contract.VoiceOpen{Config: contract.VoiceConfig{Detection: detection, Language: "en", Prompt: "Paris"}})
	l.sendAudio(quiet(1000))
	l.sendAudio(pcm)
	l.sendAudio(quiet(2000))
	began := l.want(contract.VoiceStarted)
	if late := began.From + 300*ms - 1000*ms; late < -20*ms || late > 150*ms || !strings.HasPrefix(began.Item, "item_") {
		t.Errorf("%+v", began)
	}
	ended := l.want(contract.VoiceStopped)
	end := 1000*ms + int64(len(pcm)/2) + 500*ms
	if ended.Item != began.Item || ended.From != began.From || ended.To < end-150*ms || ended.To > end+50*ms {
		t.Errorf("%+v, not to %d", ended, end)
	}
	if r := l.want(contract.VoiceTranscript); r.Item != began.Item || r.Text != "the words" {
		t.Errorf("%+v", r)
	}
	if u := got.Load(); u.Language != "en" || u.Prompt != "Paris" || u.Organization != "org_1" || u.Begun == nil || int64(len(u.PCM)/2) > ended.To-ended.From ||
		!slices.Equal(u.PCM[2*(1000*ms-ended.From):][:len(pcm)], pcm) {
		t.Errorf("%d bytes", len(u.PCM))
	}
	l.until("what was heard", func() bool { return l.heard == l.at && l.needs >= ended.To })

	l.sendAudio(pcm) // another utterance
	l.sendAudio(quiet(1000))
	if r := l.want(contract.VoiceStarted); r.Item == began.Item || r.From < ended.To {
		t.Errorf("%+v", r)
	}
	l.want(contract.VoiceStopped)
	l.want(contract.VoiceTranscript)
	secret(t, svc, "the words", "Paris")
}

// TestStartIsReportedImmediately measures the time from the frame in which speech starts until the
// ingress receives the report.
func TestStartIsReportedImmediately(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	hold := make(chan struct{})
	defer close(hold)
	s := defaultScript()
	s.hear = func(ctx context.Context, _ speech.Utterance) (string, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return "", ctx.Err()
	}
	svc := start(t, s)
	var took []time.Duration
	var behind []int64
	for n := range 20 {
		l := svc.open(contract.VoiceOpen{Line: fmt.Sprint("line_", n), Config: contract.VoiceConfig{Detection: detection}})
		l.sendAudio(quiet(500))
		l.until("silence", func() bool { return l.heard == l.at })
		for at := 0; ; at += 20 * ms * 2 { // send one frame at a time, like a client
			l.sendAudio(pcm[at : at+20*ms*2])
			sent := time.Now()
			if r, ok := l.report(testkit.Scaled(5 * time.Millisecond)); ok {
				took = append(took, time.Since(sent))
				behind = append(behind, (l.at-500*ms)/ms)
				if r.Type != contract.VoiceStarted {
					t.Fatalf("%+v", r)
				}
				break
			}
		}
		l.Close()
	}
	slices.Sort(took)
	slices.Sort(behind)
	t.Logf("reported %v after the frame (median of %d; at most %v), %d ms of speech had come, %d at most",
		took[len(took)/2], len(took), took[len(took)-1], behind[len(behind)/2], behind[len(behind)-1])
	if took[len(took)/2] > testkit.Scaled(5*time.Millisecond) || behind[len(behind)/2] > 250 { // medians, because another test may delay one report
		t.Errorf("speech is reported late")
	}
}

func TestByCommandAlone(t *testing.T) {
	t.Parallel()
	s := defaultScript()
	s.hear = func(_ context.Context, u speech.Utterance) (string, error) { return fmt.Sprint(len(u.PCM) / 2), nil }
	l := start(t, s).open(contract.VoiceOpen{Position: 7})
	l.sendAudio(speechFor(t)) // detection is off
	l.sendAudio(quiet(2000))
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_a", From: 7, To: 7 + 2400})
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_b", From: 7 + 2400, To: l.at})
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_c", From: l.at, To: l.at + 1_000_000})
	for _, want := range []contract.VoiceReport{
		{Type: contract.VoiceTranscript, Item: "item_a", Text: "2400"},
		{Type: contract.VoiceTranscript, Item: "item_b", Text: fmt.Sprint(l.at - 7 - 2400)},
		{Type: contract.VoiceTranscript, Item: "item_c"},
	} {
		if r := l.next(); r != want {
			t.Errorf("%+v, not %+v", r, want)
		}
	}
	l.until("what is needed", func() bool { return l.needs == l.at })
	l.sendAudio(quiet(300))
	l.until("what is needed", func() bool { return l.heard == l.at && l.needs == l.at-300*ms })
	l.send(contract.VoiceCommand{Type: contract.VoiceClear, From: l.at})
	l.until("what is needed", func() bool { return l.needs == l.at })
}

// TestClearAndCommitInSpeech: a command that clears or commits speech in progress ends this speech.
// Speech after the command is a new item.
func TestClearAndCommitInSpeech(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	for _, command := range []string{contract.VoiceClear, contract.VoiceCommit} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			l := start(t, defaultScript()).open(contract.VoiceOpen{Config: contract.VoiceConfig{Detection: detection}})
			l.sendAudio(pcm[:rate])
			first := l.want(contract.VoiceStarted)
			cut := l.at
			if command == contract.VoiceClear {
				l.send(contract.VoiceCommand{Type: command, From: cut})
			} else {
				l.send(contract.VoiceCommand{Type: command, Item: "item_mine", To: cut})
				if r := l.want(contract.VoiceTranscript); r.Item != "item_mine" {
					t.Errorf("%+v", r)
				}
			}
			l.sendAudio(pcm[rate:])
			l.sendAudio(quiet(1000))
			if r := l.want(contract.VoiceStarted); r.From < cut || r.Item == first.Item {
				t.Errorf("%+v", r)
			}
			if r := l.want(contract.VoiceStopped); r.From < cut || r.Item == first.Item {
				t.Errorf("%+v", r)
			}
			l.want(contract.VoiceTranscript)
		})
	}
}

func TestConfigureDetection(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	l := start(t, defaultScript()).open(contract.VoiceOpen{})
	l.sendAudio(pcm)
	l.send(contract.VoiceCommand{Type: contract.VoiceConfigure, Config: &contract.VoiceConfig{Detection: detection}})
	l.sendAudio(quiet(1000))
	at := l.at
	l.sendAudio(pcm[:rate])
	began := l.want(contract.VoiceStarted)
	if began.From < at-320*ms {
		t.Errorf("%+v", began)
	}
	// Detection is disabled in the middle of speech. No end is reported, and all of the audio can
	// be committed.
	l.send(contract.VoiceCommand{Type: contract.VoiceConfigure, Config: &contract.VoiceConfig{Language: "fr"}})
	l.sendAudio(pcm[rate:])
	l.sendAudio(quiet(2000))
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_mine", From: began.From, To: l.at})
	if r := l.want(contract.VoiceTranscript); r.Item != "item_mine" || r.Text != "said fr" {
		t.Errorf("%+v", r)
	}
}

// TestResumed: a session moves to another worker in the middle of speech. The speech continues on
// the new worker, which also transcribes the audio that waits for transcription.
func TestResumed(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	s := defaultScript()
	s.hear = func(_ context.Context, u speech.Utterance) (string, error) { return fmt.Sprint(len(u.PCM) / 2), nil }
	svc := start(t, s)
	const position = 1_000_001
	first := int64(len(pcm)/2) + 700*ms
	l := svc.open(contract.VoiceOpen{
		Position: position, Config: contract.VoiceConfig{Detection: detection},
		Speech: &contract.VoiceSpeech{Item: "item_now", From: position + first},
	})
	l.sendAudio(pcm) // audio that is committed below
	l.sendAudio(quiet(700))
	l.sendAudio(pcm[:rate])
	l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_before", From: position, To: position + first})
	if r := l.want(contract.VoiceTranscript); r.Item != "item_before" || r.Text != fmt.Sprint(first) {
		t.Errorf("%+v", r)
	}
	l.until("what is needed", func() bool { return l.heard == l.at && l.needs == position+first })
	l.sendAudio(pcm[rate:])
	l.sendAudio(quiet(1000))
	ended := l.want(contract.VoiceStopped)
	if ended.Item != "item_now" || ended.From != position+first || ended.To < l.at-700*ms {
		t.Errorf("%+v", ended)
	}
	r := l.want(contract.VoiceTranscript)
	samples, err := strconv.ParseInt(r.Text, 10, 64)
	if silent := ended.To - ended.From - samples; r.Item != "item_now" || err != nil || silent < 0 || silent > 260*ms { // transcribed early
		t.Errorf("%+v: %d ms less, %v", r, silent/ms, err)
	}
}

// TestTranscribedEarly: speech that has probably ended is transcribed early. If the speech
// continues, it is transcribed again.
func TestTranscribedEarly(t *testing.T) {
	t.Parallel()
	pcm := speechFor(t)
	began, dropped := make(chan int, 8), make(chan struct{}, 8)
	s := defaultScript()
	s.hear = func(ctx context.Context, u speech.Utterance) (string, error) {
		began <- len(u.PCM)
		if len(u.PCM) > len(pcm)+2*700*ms { // the complete utterance
			return "both", nil
		}
		<-ctx.Done()
		dropped <- struct{}{}
		return "", ctx.Err()
	}
	l := start(t, s).open(contract.VoiceOpen{Config: contract.VoiceConfig{Detection: detection}})
	l.sendAudio(quiet(1000))
	l.sendAudio(pcm)
	l.sendAudio(quiet(350)) // too short a silence to end the speech
	l.want(contract.VoiceStarted)
	first := <-began
	l.sendAudio(pcm)
	<-dropped
	l.sendAudio(quiet(350))
	if again := <-began; again < first+len(pcm) {
		t.Errorf("%d bytes, and then %d", first, again)
	}
	if r, ok := l.report(20 * time.Millisecond); ok {
		t.Errorf("reported before the turn has ended: %+v", r)
	}
	l.sendAudio(quiet(300))
	ended := l.want(contract.VoiceStopped)
	if r := l.next(); r.Type != contract.VoiceTranscript || r.Item != ended.Item || r.Text != "both" {
		t.Errorf("%+v", r)
	}
	if len(began) > 0 {
		t.Error("the turn was transcribed once more")
	}
}

// TestOrderAndFailures: utterances are transcribed one at a time. The transcripts arrive in the
// order of the utterances, even if some calls fail.
func TestOrderAndFailures(t *testing.T) {
	t.Parallel()
	var running, calls atomic.Int32
	s := defaultScript()
	s.hear = func(_ context.Context, u speech.Utterance) (string, error) {
		if running.Add(1) > 1 {
			t.Error("two transcriptions run at the same time")
		}
		defer running.Add(-1)
		calls.Add(1)
		switch len(u.PCM) / 2 {
		case 1:
			return "", &speech.Error{Code: speech.CodeOverloaded, Message: "Busy.", Retryable: true, Cause: errors.New("503")}
		case 2:
			return "", &speech.Error{Code: speech.CodeTranscription, Message: "Not understood."}
		case 3:
			panic("a secret")
		case 4:
			return "", errors.New("dial 10.0.0.1: refused")
		case 5:
			if calls.Load() < 7 { // the first utterance needs two calls, and each of the others needs one
				return "", &speech.Error{Code: speech.CodeOverloaded, Message: "Busy.", Retryable: true}
			}
		case 6:
			if u.Language != "" {
				return "", &speech.Error{Code: speech.CodeUnknownLanguage, Message: "Not spoken here."}
			}
		}
		return fmt.Sprintf("%d%s", len(u.PCM)/2, u.Language), nil
	}
	svc := start(t, s)
	l := svc.open(contract.VoiceOpen{Config: contract.VoiceConfig{Language: "xx"}})
	l.sendAudio(quiet(100))
	for n := range int64(7) {
		l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: fmt.Sprint("item_", n+1), From: 10 * n, To: 10*n + n + 1})
	}
	for n, want := range []string{
		"failed item_1 overloaded Busy.", "failed item_2 transcription_failed Not understood.",
		"failed item_3 transcription_failed The speech could not be transcribed.",
		"failed item_4 transcription_failed The speech could not be transcribed.", "transcript item_5 5xx",
		"failed  unknown_language Not spoken here. language", "transcript item_6 6", "transcript item_7 7",
	} {
		r := l.next()
		got := fmt.Sprintf("%s %s %s", r.Type, r.Item, r.Text)
		if f := r.Failure; f != nil {
			got = strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", r.Type, r.Item, f.Code, f.Message, f.Param))
		}
		if got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
	secret(t, svc, "a secret")
	if !strings.Contains(svc.log.String(), "panicked") {
		t.Errorf("the log: %s", svc.log)
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()
	l := start(t, defaultScript()).open(contract.VoiceOpen{Position: 1000, Config: contract.VoiceConfig{Detection: detection}})
	began, alive := time.Now(), 0
	for alive < 4 {
		f := <-l.Frames()
		if f.Control == nil || f.Control.Type != contract.VoiceAlive || f.Control.Heard != 1000 {
			t.Fatalf("%+v", f.Control)
		}
		alive++
	}
	if took := time.Since(began); took > testkit.Within(2500*time.Millisecond) {
		t.Errorf("four in %v", took)
	}
	l.sendAudio(quiet(10_000)) // much faster than real time
	for last := int64(1000); last < l.at; {
		f := <-l.Frames()
		if step := f.Control.Heard - last; step > 600*ms || f.Control.Needs > f.Control.Heard || f.Control.Heard-f.Control.Needs > 2000*ms {
			t.Fatalf("%+v after %d", f.Control, last)
		}
		last = f.Control.Heard
	}
}

// TestResumedWithMuchAudio: audio may arrive much faster than in real time.
func TestResumedWithMuchAudio(t *testing.T) {
	t.Parallel()
	svc := start(t, defaultScript())
	for name, d := range map[string]*contract.VoiceDetection{"by command": nil, "by detection": detection} {
		l := svc.open(contract.VoiceOpen{Line: "line_" + name[3:], Config: contract.VoiceConfig{Detection: d}})
		second := quiet(1000)
		for range 80 { // as much audio as the bus buffers for one subscription
			if err := l.Audio(l.at, second); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l.at += rate
		}
		l.send(contract.VoiceCommand{Type: contract.VoiceCommit, Item: "item_1", To: l.at})
		if r := l.want(contract.VoiceTranscript); r.Item != "item_1" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
