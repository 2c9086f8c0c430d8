package voicegate

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/testkit"
)

func TestAConnectionIsOpenedAndClosed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{MaxDuration: time.Hour}, nil)
	r.work()
	c := r.open()
	if l := r.voiceSession(); l.open.Line == "" || l.open.Position != 0 || l.open.Config.Detection == nil {
		t.Errorf("the voice session was opened with %+v", l.open)
	}
	if got := r.metric("parley_voice_connections", ""); got != 1 {
		t.Errorf("%v connections are counted", got)
	}
	<-time.After(1200 * time.Millisecond) // longer than the timeouts of the server
	c.sendf(`{"type":"input_audio_buffer.clear"}`)
	c.want("input_audio_buffer.cleared")
	if err := c.socket.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	r.wantReason("client")
	if open, closed := r.metric("parley_voice_connections", ""), r.metric("parley_voice_closed_total", "client"); open != 0 || closed != 1 {
		t.Errorf("%v connections are open, %v closed", open, closed)
	}
	for _, key := range []string{`"org_id":"org_1"`, `"agent_id":"ag_1"`, `"session_id":"rt_1"`, `"took_ms"`} {
		if !strings.Contains(r.log.String(), key) {
			t.Errorf("%s is not in the log:\n%s", key, r.log)
		}
	}
}

func TestRequestsWithoutAnUpgradeAreRefused(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	got, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, got.Body)
	_ = got.Body.Close()
	if got.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("answered %d", got.StatusCode)
	}
	if err := <-r.served; err != nil {
		t.Error(err)
	}
	session := Admission{Conversation: realtime.Settings{Session: []byte(`{"type":"transcription"}`), NewID: newID()}}
	if err := r.gate.Serve(nil, request, session); apierr.CodeFor(err) != apierr.InvalidRequest {
		t.Errorf("an invalid session: %v", err)
	}
}

func TestSpeechIsSentBothWays(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	l := r.voiceSession()
	spoken := make([]byte, 4*contract.VoiceRate) // 2 s of 16-bit samples
	_, _ = rand.Read(spoken)
	for at := 0; at < len(spoken); at += 9600 {
		c.append(spoken[at : at+9600])
	}
	if got := l.wantHeard(len(spoken) / 2); !bytes.Equal(got, spoken) {
		t.Error("the worker received different samples")
	}
	l.report(contract.VoiceReport{Type: contract.VoiceStarted, Item: "item_a", From: 4800})
	if got := c.want("input_audio_buffer.speech_started"); got.AudioMS != 200 {
		t.Errorf("speech began at %d ms", got.AudioMS)
	}
	l.report(contract.VoiceReport{Type: contract.VoiceStopped, Item: "item_a", From: 4800, To: 40_000})
	l.report(contract.VoiceReport{Type: contract.VoiceTranscript, Item: "item_a", Text: "hello there"})
	if got := c.want("conversation.item.input_audio_transcription.completed"); got.Transcript != "hello there" {
		t.Errorf("the transcript is %q", got.Transcript)
	}
	run := r.begun()
	if run.turn.Message != "hello there" {
		t.Errorf("the input of the run is %q", run.turn.Message)
	}
	if got := c.want("response.created"); got.Response.Metadata["run_id"] != run.id {
		t.Errorf("the response is of %q", got.Response.Metadata["run_id"])
	}
	answer := "Good morning. "
	run.addText(t, answer)
	say := l.want(contract.VoiceSay)
	run.complete(t, answer)
	l.want(contract.VoiceSay)
	l.say(say, 0, len(answer), 0, true)
	l.said(say.Answer)
	if got := c.heardUntilDone(); !bytes.Equal(got, speech(0, len(answer))) {
		t.Errorf("%d bytes of speech arrived, want %d, or the bytes differ", len(got), len(speech(0, len(answer))))
	}
	if got := r.metric("parley_voice_turn_seconds", ""); got != 1 {
		t.Errorf("%v turns are counted", got)
	}
	_ = c.socket.Close(websocket.StatusNormalClosure, "")
	r.wantReason("client")
	if open := r.runs.open.Load(); open != 0 {
		t.Errorf("%d runs are still followed", open)
	}
	if strings.Contains(r.log.String(), "hello") || strings.Contains(r.log.String(), "morning") {
		t.Errorf("the log contains the conversation:\n%s", r.log)
	}
}

// heardUntilDone returns the audio that the client receives before response.done.
func (c *client) heardUntilDone() []byte {
	c.Helper()
	var pcm []byte
	for {
		switch e := c.next(); e.Type {
		case "response.output_audio.delta":
			pcm = append(pcm, e.pcm(c.T)...)
		case "response.done":
			if e.Response.Status != "completed" {
				c.Errorf("the response is %s", e.Response.Status)
			}
			return pcm
		}
	}
}

// If the user speaks during an answer, the answer stops immediately. The 3.9 s of its speech that
// are queued are not sent.
func TestBargeInStopsTheAnswerImmediately(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	l := r.voiceSession()
	c.ask("tell me a story")
	run := r.begun()
	story := strings.Repeat("once upon a time ", 12)
	run.addText(t, story)
	say := l.want(contract.VoiceSay)
	l.say(say, 0, len(story)-9, 0, false)
	c.want("response.output_audio.delta")
	reported := time.Now()
	l.report(contract.VoiceReport{Type: contract.VoiceStarted, Item: "item_b", From: 0})
	l.want(contract.VoiceStop)
	cancelled := time.Since(reported)
	c.want("input_audio_buffer.speech_started")
	started := time.Since(reported)
	for {
		e := c.next()
		if e.Type == "response.output_audio.delta" {
			t.Fatalf("speech arrived %s after the interruption was reported", e.at.Sub(reported))
		}
		if e.Type == "response.done" {
			if e.Response.Status != "cancelled" || e.Response.Details.Reason != "turn_detected" {
				t.Errorf("the response is %+v", e.Response)
			}
			break
		}
	}
	t.Logf("the client was notified after %s, the worker stopped after %s", started, cancelled)
	if started > testkit.Within(time.Second) { // a benchmark measures this time on an idle machine
		t.Errorf("the client was notified after %s", started)
	}
	if got := r.wantCancelled(); got != run.id {
		t.Errorf("the run %s was cancelled", got)
	}
	if heard := r.wantHeardText(); heard.AudioMS > 3000 || len(heard.Text) > len(story)/2 {
		t.Errorf("the heard text is %+v", heard)
	}
}

// Speech that is queued for a slow client is not sent after an interruption either.
func TestInterruptedSpeechIsNotSent(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.connect()
	l := r.voiceSession()
	c.ask("tell me a story")
	story := strings.Repeat("once upon a time ", 30)
	r.begun().addText(t, story)
	l.say(l.want(contract.VoiceSay), 0, len(story), 0, false)
	l.reportAlive()
	<-time.After(200 * time.Millisecond) // by then the socket buffers are full
	l.report(contract.VoiceReport{Type: contract.VoiceStarted, Item: "item_b", From: 0})
	l.want(contract.VoiceStop)
	go c.read()
	samples := 0
	for e := c.next(); e.Type != "response.done"; e = c.next() {
		samples += len(e.pcm(t)) / 2
	}
	if samples == 0 || samples > len(story)*perByte*3/4 {
		t.Errorf("%d samples of %d were sent", samples, len(story)*perByte)
	}
}

func TestTurnsAreExecutedInOrder(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	r.runs.wait = make(chan struct{})
	c := r.open()
	c.ask("first")
	c.sendf(`{"type":"response.cancel"}`) // sent while Begin waits
	c.sendf(`{"type":"input_audio_buffer.clear"}`)
	c.want("input_audio_buffer.cleared")
	close(r.runs.wait)
	run := r.begun()
	if got := r.wantCancelled(); got != run.id {
		t.Errorf("%s was cancelled", got)
	}
	c.want("response.done")
	c.ask("second")
	r.begun()
	c.want("response.created")
	c.sendf(`{"type":"response.cancel"}`)
	r.wantCancelled()
	c.want("response.done")
	if did := r.runs.all(); !strings.HasPrefix(did, "begin:first heard: cancel") || strings.Count(did, "begin") != 2 {
		t.Errorf("calls: %s", did)
	}
	r.refuse(apierr.RateLimited)
	c.ask("third")
	if got := c.want("response.done"); got.Response.Status != "failed" {
		t.Errorf("a refused turn is %s", got.Response.Status)
	}
	r.panics()
	c.ask("fourth")
	if got := c.want("response.done"); got.Response.Status != "failed" {
		t.Errorf("a turn that panicked is %s", got.Response.Status)
	}
}

// A client that disconnects does not cancel its run. The gate saves how much of the answer was
// played.
func TestARunOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	l := r.voiceSession()
	c.ask("a long story")
	run := r.begun()
	run.addText(t, "once upon a time, and so on")
	l.say(l.want(contract.VoiceSay), 0, 20, 0, false)
	c.want("response.output_audio.delta")
	<-time.After(200 * time.Millisecond)
	_ = c.socket.CloseNow()
	r.wantReason("gone")
	if heard := r.wantHeardText(); len(heard.Text) > 20 || heard.AudioMS < 200 || heard.AudioMS > 400 {
		t.Errorf("the heard text is %+v", heard)
	}
	if did := r.runs.all(); strings.Contains(did, "cancel") {
		t.Errorf("calls: %s", did)
	}
	if open := r.runs.open.Load(); open != 0 {
		t.Errorf("%d runs are still followed", open)
	}
}

// If no part of an answer was played, nothing about its playback is saved, and the session keeps
// the whole answer.
func TestAnUnheardAnswerIsKeptWhole(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	c.ask("a long story")
	r.begun()
	c.want("response.created")
	_ = c.socket.CloseNow()
	r.wantReason("gone")
	if did := r.runs.all(); did != "begin:a long story" {
		t.Errorf("calls: %s", did)
	}
}

// If a worker dies during an answer, another one takes over. No sample of the input or of the
// answer is lost or repeated.
func TestAnotherWorkerContinuesAnAnswer(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	first := r.work()
	c := r.open()
	l := r.voiceSession()
	l.keep.Store(true)
	spoken := make([]byte, 2*contract.VoiceRate)
	_, _ = rand.Read(spoken)
	c.append(spoken[:20_000])
	l.wantHeard(10_000)
	c.ask("tell me")
	run := r.begun()
	answer := "One sentence. And another one."
	run.addText(t, answer)
	say := l.want(contract.VoiceSay)
	l.say(say, 0, 13, 0, true)
	l.say(say, 13, 23, 0, false) // only a part of the second sentence is spoken
	var pcm []byte
	for len(pcm) < 2*23*perByte {
		pcm = append(pcm, c.want("response.output_audio.delta").pcm(t)...)
	}
	first.kill()
	died := time.Now()
	c.append(spoken[20_000:]) // sent while no worker is connected
	r.work()
	again := r.voiceSession()
	t.Logf("the voice session was open again after %s", time.Since(died))
	if took := time.Since(died); took > testkit.Within(3*time.Second) {
		t.Errorf("the session was reopened after %s", took)
	}
	say = again.want(contract.VoiceSay)
	if say.Start != 13 || say.Skip != 10*perByte || say.Text != answer[13:] {
		t.Fatalf("the command is %+v", say)
	}
	again.say(say, 13, len(answer), say.Skip, true)
	run.complete(t, answer)
	again.want(contract.VoiceSay)
	again.said(say.Answer)
	if pcm = append(pcm, c.heardUntilDone()...); !bytes.Equal(pcm, speech(0, len(answer))) {
		t.Errorf("%d of %d samples arrived, or the samples differ", len(pcm)/2, len(answer)*perByte)
	}
	needed := int(again.open.Position)
	if got := again.wantHeard(len(spoken)/2 - needed); !bytes.Equal(got, spoken[2*needed:]) {
		t.Error("the second worker received different samples")
	}
	if lost := r.metric("parley_voice_lines_lost_total", ""); lost != 1 {
		t.Errorf("%v lines were lost", lost)
	}
}

func TestALeavingWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	first := r.work()
	c := r.open()
	r.voiceSession()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		first.stop(ctx)
	}()
	r.work()
	again := r.voiceSession()
	<-stopped
	c.append(make([]byte, 4800))
	again.wantHeard(2400)
	if lost := r.metric("parley_voice_lines_lost_total", ""); lost != 0 {
		t.Errorf("%v lines were lost", lost)
	}
}

func TestVoiceIsUnavailableWithoutAWorker(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, func(may *times) { may.open, may.reopen = 2*time.Second, time.Second })
	c := r.connect()
	go c.read()
	if first := c.next(); first.Type != "error" || first.Error.Code != "voice_unavailable" {
		t.Errorf("the first event is %+v", first)
	}
	c.wantClosed(websocket.StatusTryAgainLater)
	r.wantReason("no_worker")
	w := r.work()
	c = r.open()
	r.voiceSession()
	w.kill()
	c.wantClose("voice_unavailable", websocket.StatusTryAgainLater)
	r.wantReason("no_worker")
}

// A voice session that repeatedly loses its worker is closed. Otherwise it could crash all workers
// one after another.
func TestARepeatedlyLostVoiceSessionIsClosed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, Config{}, nil)
	r.work()
	c := r.open()
	for range maxLosses {
		l := r.voiceSession()
		c.append(make([]byte, 4800))
		l.wantHeard(2400) // the loss counts only if both sides have opened the session
		close(l.quit)
	}
	c.wantClose("voice_unavailable", websocket.StatusTryAgainLater)
	r.wantReason("no_worker")
}
