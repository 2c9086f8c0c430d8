package e2e

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/realtimeclient"
	"parley/shared/testkit"
)

// workerFault is a fault that hits a voice session's worker, or its connection to the bus, in the
// middle of an answer.
type workerFault struct {
	name string
	// pause is the maximum time that may pass between two audio deltas of the answer.
	pause time.Duration
	// starved is the maximum total time for which a listener may have no audio to play.
	starved time.Duration
	do      func(c *cluster, holder *testkit.Process)
	// after is called when the audio of the answer continues after the fault.
	after func(holder *testkit.Process)
}

// workerFaults contains rounds of faults. The faults of one round are injected in parallel, into
// separate voice sessions. A frozen worker has its own round, because it cannot refuse a request to
// take over another voice session.
var workerFaults = [][]workerFault{
	{
		{name: undisturbed, pause: time.Second, do: func(*cluster, *testkit.Process) {}},
		{
			name: "kill -9", pause: 3 * time.Second, starved: time.Second,
			do: func(_ *cluster, holder *testkit.Process) { holder.Kill9() },
		},
		{
			name: "stopped gracefully", pause: time.Second,
			do: func(_ *cluster, holder *testkit.Process) { holder.Term() },
		},
	},
	{
		{ // any other worker may take over the voice session
			name: "frozen, and back as a zombie", pause: 8 * time.Second, starved: 5 * time.Second,
			do:    func(_ *cluster, holder *testkit.Process) { holder.Stop() },
			after: func(holder *testkit.Process) { holder.Cont() },
		},
	},
	{
		{
			name: "NATS restarted", pause: 10 * time.Second, starved: 8 * time.Second,
			do: func(c *cluster, _ *testkit.Process) {
				c.nats.Kill9()
				c.nats.Restart()
			},
		},
	},
}

const (
	// undisturbed is the name of the voice session without a fault. The tests compare the answers
	// of the other voice sessions with its answers.
	undisturbed = "undisturbed"
	// oneSlot limits a worker to one voice session.
	oneSlot = "VOICE_CONCURRENCY=1"
)

// TestChaosVoiceWorkerLostMidAnswer injects each fault while a voice worker speaks. The answer must
// equal the answer in the undisturbed voice session. The voice session with the fault must continue
// with its history.
func TestChaosVoiceWorkerLostMidAnswer(t *testing.T) {
	nightly(t, "it starts fourteen processes and speaks in real time")
	t.Parallel()
	needsVoice(t)
	c, l := newCluster(t), newListener(t, "what comes next")
	in := c.ingress(t)
	c.worker(t, "ROLES=agent")
	owner := signUp(t, in.url).speaks(t)
	var whole realtimeclient.Answer
	for _, round := range workerFaults {
		var startWorkers []*testkit.Process
		struck, all := make([]disturbed, len(round)), map[string]func(*testing.T){}
		for i, s := range round {
			holder, k := c.voiceWorker(t, l, oneSlot), owner.converse(t, s.name)
			startWorkers = append(startWorkers, holder, nil)
			all[s.name] = func(t *testing.T) {
				t.Helper()
				k := &talk{Client: k.Client, t: t}
				struck[i] = s.strike(c, k, holder)
				checkHistory(t, c, owner, k, s.name)
			}
		}
		for i := range round { // starts the workers that take over the voice sessions
			startWorkers[2*i+1] = c.voiceWorker(t, l, oneSlot)
		}
		runTogether(t, all)()
		for i, s := range round {
			if s.name == undisturbed {
				whole = struck[i].answer
			}
		}
		for i, s := range round {
			checkUndisturbed(t, s, struck[i], whole)
		}
		for _, process := range startWorkers {
			process.Kill9() // whatever fault was injected
		}
	}
}

// disturbed is an answer, and the time at which a fault was injected during it.
type disturbed struct {
	answer realtimeclient.Answer
	at     time.Time
}

// strike requests an answer, injects the fault s in the middle of the answer, and reads the answer
// to its end.
func (s *workerFault) strike(c *cluster, k *talk, holder *testkit.Process) (d disturbed) {
	k.t.Helper()
	k.ask(spoken)
	part := k.part(5 * time.Second) // more audio than the service sends ahead
	s.do(c, holder)
	d.at = time.Now()
	part = more(k, part, 500*time.Millisecond)
	if s.after != nil {
		s.after(holder)
	}
	d.answer = k.rest(part)
	return d
}

// more continues to read an answer whose beginning is the argument a, until it has received further
// audio of at least the duration d.
func more(k *talk, a realtimeclient.Answer, d time.Duration) realtimeclient.Answer {
	k.t.Helper()
	want := len(a.PCM) + int(d.Seconds()*realtimeclient.BytesPerSecond)
	next := k.part(d)
	next.PCM = append(a.PCM, next.PCM...)
	next.Transcript = a.Transcript + next.Transcript
	next.Frames = append(a.Frames, next.Frames...)
	next.Events = append(a.Events, next.Events...)
	if len(next.PCM) < want {
		k.t.Fatalf("%d bytes of audio, want %d", len(next.PCM), want)
	}
	return next
}

// checkUndisturbed checks that an answer equals the answer in the undisturbed voice session, and
// that its pauses do not exceed the limits for the fault.
func checkUndisturbed(t *testing.T, s workerFault, struck disturbed, whole realtimeclient.Answer) {
	t.Helper()
	got := struck.answer
	if len(got.Frames) == 0 || len(whole.Frames) == 0 {
		return // the test has failed in another voice session
	}

	pause, behind := got.Longest()
	t.Logf("%s: the longest pause was %s, %s before the end; a listener waited for %s",
		s.name, pause, got.Frames[len(got.Frames)-1].At.Sub(got.Frames[behind].At).Round(time.Millisecond), got.StarvedTime())
	gap, limit := s.pause, s.starved
	if testing.Short() { // wider limits, because tests of other packages use the CPU at the same time
		gap, limit = gap+3*time.Second, limit+200*time.Millisecond
	}
	if pause > gap {
		t.Errorf("%s: no audio for %s, %s after the fault", s.name, pause, got.Frames[behind-1].At.Sub(struck.at))
	}
	if starved := got.StarvedTime(); starved > limit {
		t.Errorf("%s: a listener waited for %s", s.name, starved)
	}
	if last := got.Frames[len(got.Frames)-1].At; !last.After(struck.at.Add(time.Second)) {
		t.Errorf("%s: the answer ended %s after the fault, so nothing was tested", s.name, last.Sub(struck.at))
	}

	sameAnswer(t, got, whole)
}

// checkHistory asks another question. The model must receive the voice session's complete history.
func checkHistory(t *testing.T, c *cluster, owner account, k *talk, session string) {
	t.Helper()
	next := "And after " + session + "?"
	k.ask(next)
	if got := k.answer(); got.Transcript != "echo: "+next {
		t.Errorf("%s: next answer = %q", session, got.Transcript)
	}
	if history := c.model.historyFor(next); strings.Count(history, echoed(spoken)) != 1 {
		t.Errorf("%s: history shown to the model =\n%s", session, history)
	}

	said := owner.transcript(t, strings.ReplaceAll(session, " ", "%20")).Messages
	if len(said) != 4 || said[1].Content != echoed(spoken) || said[1].Interrupted || said[3].Content != "echo: "+next {
		t.Errorf("%s: session = %+v", session, said)
	}

	_ = k.Close() // the connection may already be lost
}

// alike returns the number of uploads whose audio equals whole, apart from silence at the end. It
// returns 0 if one of the uploads is not a prefix of whole.
func alike(uploads [][]byte, whole []byte) (n int) {
	whole = bytes.TrimRight(whole, "\x00")
	for _, part := range uploads {
		part = bytes.TrimRight(part, "\x00")
		if !bytes.HasPrefix(whole, part) {
			return 0
		}
		if len(part) == len(whole) {
			n++
		}
	}
	return n
}

// TestChaosVoiceWorkerLostMidSpeech kills a voice session's worker while the user speaks, and
// another worker while speech is being transcribed. The transcription provider must receive the
// complete audio nevertheless.
func TestChaosVoiceWorkerLostMidSpeech(t *testing.T) {
	t.Parallel()
	needsVoice(t)
	c, l := newCluster(t), newListener(t, "this was understood")
	in := c.ingress(t)
	c.worker(t, "ROLES=agent")
	owner := signUp(t, in.url).speaks(t)
	words := append(realtimeclient.Silence(time.Second), speech(t, "please tell me everything about the mountains")...)
	c.voiceWorker(t, l, oneSlot)
	calm := owner.converse(t, "calm")
	holder := c.voiceWorker(t, l, oneSlot)
	k := owner.converse(t, "mid-speech")
	next := c.voiceWorker(t, l, oneSlot)
	runTogether(t, map[string]func(*testing.T){
		"calm": func(t *testing.T) {
			t.Helper()
			calm := &talk{Client: calm.Client, t: t}
			calm.say(words)
			checkTurn(t, calm)
		},
		"mid-speech": func(t *testing.T) {
			t.Helper()
			k := &talk{Client: k.Client, t: t}
			middle := len(words) / 4 * 2
			k.within(func(ctx context.Context) error { return k.Speak(ctx, words[:middle]) })
			k.until("input_audio_buffer.speech_started")
			holder.Kill9()
			k.say(words[middle:])
			checkTurnBegun(t, k)
		},
	})()

	heard := l.uploads() // includes the uploads at pauses that did not end the turn
	want := slices.MaxFunc(heard, func(a, b []byte) int { return len(a) - len(b) })
	if n := alike(heard, want); n < 2 {
		t.Fatalf("%d of %d uploads are complete: the first of them %s, the last %s", n, len(heard), lasts(heard[0]), lasts(heard[len(heard)-1]))
	}

	k.Leave() // now only the worker of this session has a free slot
	holder = next
	k = owner.converse(t, "mid-transcription")
	c.voiceWorker(t, l, oneSlot)
	uploaded := l.holdNext()
	k.say(words)
	awaitClosed(t, uploaded, "the upload of what was said")
	holder.Kill9()
	checkTurn(t, k)
	all := l.uploads() // may include retries, because the listener may answer too late on a busy machine
	if n := alike(all, want); n < 4 {
		t.Errorf("%d of %d uploads are complete; the last: %s, undisturbed %s", n, len(all), lasts(all[len(all)-1]), lasts(want))
	}

	for _, session := range []string{"mid-speech", "mid-transcription"} {
		if said := owner.transcript(t, session).Messages; len(said) != 2 || said[0].Content != "this was understood" {
			t.Errorf("%s: session = %+v", session, said)
		}
	}
}

func lasts(pcm []byte) time.Duration { return realtimeclient.Lasts(len(pcm)) }

// checkTurn reads the events of a spoken turn and its answer. Each event must arrive exactly once,
// and in order.
func checkTurn(t *testing.T, k *talk) {
	t.Helper()
	k.until("input_audio_buffer.speech_started")
	checkTurnBegun(t, k)
}

func checkTurnBegun(t *testing.T, k *talk) {
	t.Helper()
	understood, before := k.until("conversation.item.input_audio_transcription.completed")
	const want = "input_audio_buffer.speech_stopped input_audio_buffer.committed conversation.item.added conversation.item.done " +
		"conversation.item.input_audio_transcription.completed"
	if got := realtimeclient.Types(before); got != want || understood.Transcript != "this was understood" {
		t.Errorf("transcript = %q, events = %s", understood.Transcript, got)
	}
	if got := k.answer(); got.Transcript != "echo: this was understood" || len(got.PCM) == 0 {
		t.Errorf("answer = %q, with %d bytes of audio", got.Transcript, len(got.PCM))
	}
}

func awaitClosed(t *testing.T, what <-chan struct{}, name string) {
	t.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-what:
	case <-over.C:
		t.Fatalf("not closed within %s: %s", patience, name)
	}
}

// TestChaosIngressKilledMidConversation kills the ingress of a voice session. The client loses only
// its connection, and can continue the session through another ingress.
func TestChaosIngressKilledMidConversation(t *testing.T) {
	t.Parallel()
	needsVoice(t)
	c, l := newCluster(t), newListener(t, "nothing")
	dying, other := c.ingress(t), c.ingress(t)
	c.worker(t, "ROLES=agent")
	c.voiceWorker(t, l)
	owner := signUp(t, dying.url).speaks(t)
	k := owner.converse(t, "kept")
	k.ask("The first question.")
	k.answer()
	k.ask(spoken)
	k.part(5 * time.Second)
	dying.Kill9()
	if code, _ := k.closed(5 * time.Second); code != -1 {
		t.Errorf("close code from a killed ingress = %d", code)
	}

	there := owner.at(other)
	again := there.converse(t, "kept")
	again.ask("What did I ask?")
	if got := again.answer(); got.Transcript != "echo: What did I ask?" {
		t.Errorf("%q", got.Transcript)
	}

	history := c.model.historyFor("What did I ask?")
	if !strings.Contains(history, echoed("The first question.")) || !strings.Contains(history, echoed(spoken)) {
		t.Errorf("history shown to the model =\n%s", history)
	}
	if said := there.transcript(t, "kept").Messages; len(said) != 6 || said[5].Content != "echo: What did I ask?" {
		t.Errorf("session = %+v", said)
	}
}

// TestStoppingIngressFinishesItsSpeech stops an ingress. The ingress must finish an answer that is
// in progress, and close idle voice sessions.
func TestStoppingIngressFinishesItsSpeech(t *testing.T) {
	t.Parallel()
	needsVoice(t)
	const goingAway = 1012 // close code "service restart"
	c, l := newCluster(t), newListener(t, "nothing")
	leaving := c.ingress(t)
	c.worker(t, "ROLES=agent")
	c.voiceWorker(t, l)
	owner := signUp(t, leaving.url).speaks(t)
	idle, calm, k := owner.converse(t, "idle"), owner.converse(t, "calm"), owner.converse(t, "spoken")
	calm.ask(spoken)
	begun := calm.part(7 * time.Second)
	k.ask(spoken) // the answer is shorter than an ingress's grace period
	whole := calm.rest(begun)
	part := k.part(5 * time.Second)
	leaving.Term()
	if code, _ := idle.closed(6 * time.Second); code != goingAway { // the session in the variable calm still receives its answer
		t.Errorf("close code of an idle voice session = %d", code)
	}

	sameAnswer(t, k.rest(part), whole)
	if code, _ := k.closed(10 * time.Second); code != goingAway {
		t.Errorf("close code of the voice session = %d", code)
	}
	if err := leaving.Wait(25 * time.Second); err != nil {
		t.Errorf("the ingress did not exit with 0: %v", err)
	}
}

// TestVoiceWithoutWorkers opens a voice session while no worker runs. The client must get an error,
// and the service must close the session.
func TestVoiceWithoutWorkers(t *testing.T) {
	t.Parallel()
	const tryAgainLater = 1013
	c := newCluster(t)
	in := c.ingress(t)
	owner := signUp(t, in.url).speaks(t)
	line, err := owner.dial(t, "alone")
	if err != nil {
		t.Fatal(err)
	}

	k := &talk{Client: line, t: t}
	fault, all := k.until("error")
	if fault.Error == nil || fault.Error.Code != "voice_unavailable" || len(all) != 1 {
		t.Errorf("%s, the last of %d events", fault.Raw, len(all))
	}
	if code, _ := k.closed(5 * time.Second); code != tryAgainLater {
		t.Errorf("close code = %d", code)
	}

	in.awaitReady(t)
}
