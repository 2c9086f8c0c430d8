package voice

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/lifecycle"
	"parley/workers/internal/speech"
	"parley/workers/internal/voice/activity"
)

// maxWaiting is the maximum number of utterances that wait for their transcripts. Ingresses have
// the same limit.
const maxWaiting = 64

// errOverloaded is the error for an utterance beyond maxWaiting. Ingresses enforce the same limit,
// but a worker does not trust them.
var errOverloaded = &speech.Error{
	Code: speech.CodeOverloaded, Message: "Too much audio is waiting for transcription; wait, then repeat it.",
}

// input is the state of the audio that a session has received. Audio passes through three stages:
// it is on the tape, detection finds utterances in it, and utterances wait for their transcripts.
type input struct {
	tape      tape
	from      int64              // position of the first sample in which speech is detected
	since     int64              // position up to which audio has been processed
	detector  *activity.Detector // nil if the end of a turn is signaled by a command instead of detection
	detection contract.VoiceDetection
	item      string // id of the speech in progress
	reported  int64  // position that was sent in the latest alive report

	waiting []*utterance // utterances that wait for their transcripts; the first is being transcribed
	early   *utterance   // utterance that is transcribed early, although its speech may continue; nil if there is none
	// texts delivers the outcomes of calls to the session's goroutine.
	texts chan transcript
}

// utterance is audio to be transcribed. It consists of the samples at the positions p with from <=
// p < to. Detection or a command creates an utterance. It is removed after its transcript or its
// failure was reported.
type utterance struct {
	item     string
	from, to int64
	last     int64 // for detected speech: position after the last sound
	found    bool  // true if this session has detected the utterance; false if a command has committed it
	// tries is the number of calls that have begun.
	tries    int
	pcm      []byte             // audio; set when the first call begins
	language string             // language of the last call
	cancel   context.CancelFunc // cancels the call; nil while no call is running
	got      *transcript        // transcript that arrived before the utterance was at the front of the queue
}

// transcript is the outcome of a call that transcribes an utterance.
type transcript struct {
	of   *utterance
	text string
	err  error
}

// newInput returns the input state of a session that is new or has moved to this worker. If the
// session has moved in the middle of speech, detection continues with that speech. Positions
// continue at open.Position.
func newInput(open contract.VoiceOpen) input {
	at := open.Position
	in := input{tape: tape{start: at}, from: at, since: at, reported: at, texts: make(chan transcript)}

	d := open.Config.Detection
	if d != nil {
		in.detection = *d
	}

	// A session may move in the middle of speech. The speech must keep its id and its start.
	switch s := open.Speech; {
	case d == nil:
	case s != nil: // a command can still commit audio that precedes the start of detection
		in.from, in.item = max(s.From, open.Position), s.Item
		in.detector = activity.Resume(activity.Settings(*d), in.from, s.From)
	default:
		in.detector = activity.New(activity.Settings(*d), open.Position)
	}
	return in
}

// configure replaces the settings for detection. If they enable detection, speech cannot start in
// audio that has already arrived. If they disable it, the speech in progress remains until a
// command commits it.
func (in *input) configure(d *contract.VoiceDetection) {
	if d != nil {
		in.detection = *d
	}
	switch {
	// The audio that the previous detector needed is kept, because a command may still commit it.
	case d == nil && in.detector != nil:
		in.since, in.detector, in.item = in.detector.Needs(), nil, ""
	case d != nil && in.detector == nil:
		in.from = max(in.tape.end(), in.from)
		in.detector = activity.New(activity.Settings(*d), in.from)
	case d != nil:
		in.detector.Configure(activity.Settings(*d))
	}
}

// restart marks the audio before a position as processed. Detection continues at this position.
func (in *input) restart(at int64) {
	at = min(at, in.tape.end())
	in.since = max(in.since, at)
	if in.detector == nil {
		return
	}
	in.detector.Restart(at)

	// Speech that began before the position has ended, so its id is no longer needed.
	if _, speaking := in.detector.Speaking(); !speaking {
		in.item = ""
	}
}

// needs returns the position of the first sample that the session may still need. The ingress may
// drop the audio before this position.
func (in *input) needs() int64 {
	needs := in.since
	if in.detector != nil {
		needs = in.detector.Needs()
	}

	// The audio of a waiting utterance is needed until its call begins, because the audio is copied
	// only then.
	for _, u := range in.waiting {
		needs = min(needs, u.from)
	}
	return max(needs, in.tape.start, in.tape.end()-maxTape)
}

// detect returns the events of speech in audio that has just been received. The argument fresh is
// the new audio at the end of the tape.
func (in *input) detect(fresh []byte) []activity.Event {
	// Audio before in.from is not examined, because another worker has already examined it or
	// because it must not start speech.
	begins := in.tape.end() - int64(len(fresh)/sampleBytes)
	if in.detector == nil || in.tape.end() <= in.from {
		return nil
	}
	from := max(begins, in.from)
	if in.detector.Heard() != from { // after a gap, the tape has restarted at another position
		in.detector, in.item = activity.New(activity.Settings(in.detection), from), ""
	}
	return in.detector.Write(fresh[sampleBytes*(from-begins):])
}

// handleAudio processes received audio. The argument at is the position of the first sample in it.
// If speech starts, handleAudio reports this before it does any other work, so that the ingress can
// stop an answer at once.
func (l *session) handleAudio(at int64, pcm []byte) {
	in := &l.input
	for _, e := range in.detect(in.tape.add(at, pcm)) {
		if e.Stopped {
			l.report(contract.VoiceReport{Type: contract.VoiceStopped, Item: in.item, From: e.From, To: e.To})
			l.wait(in.stopped(e))
			in.item, in.early = "", nil
			continue
		}

		// The id is random, so that a session creates no id twice, even after it has moved.
		in.item = "item_" + rand.Text()
		l.report(contract.VoiceReport{Type: contract.VoiceStarted, Item: in.item, From: e.From})
		l.deps.Prepare()
	}

	l.transcribeEarly()
	l.bound()

	// Alive reports contain the position before which the ingress need not keep audio.
	if in.tape.end()-in.reported >= rate/2 {
		l.alive()
	}
}

// transcribeEarly starts to transcribe speech that has probably ended, without waiting until the
// end is certain. If the speech continues, the call is cancelled.
func (l *session) transcribeEarly() {
	in := &l.input
	last, pausing := int64(0), false
	if in.detector != nil {
		last, pausing = in.detector.Pausing()
	}

	if in.early != nil && (!pausing || in.early.last != last) {
		in.drop()
		l.deps.Prepare()
	}

	// Transcripts are delivered in order, so an early transcription starts only if no other
	// utterance waits.
	if !pausing || in.early != nil || len(in.waiting) > 0 {
		return
	}

	from, _ := in.detector.Speaking()
	in.early = &utterance{item: in.item, from: from, to: in.tape.end(), last: last, found: true}
	l.begin(in.early, 0)
}

// drop cancels the early transcription, if there is one.
func (in *input) drop() {
	if in.early != nil {
		in.early.stop()
		in.early = nil
	}
}

// stopped returns the utterance for speech that has ended. If the speech was transcribed early and
// no sound has followed, this is the utterance of the early transcription.
func (in *input) stopped(e activity.Event) *utterance {
	if u := in.early; u != nil && u.item == in.item && u.last == e.Last {
		u.to = e.To
		return u
	}
	in.drop()
	return &utterance{item: in.item, from: e.From, to: e.To, last: e.Last, found: true}
}

// commit queues the samples that a command names for transcription. Detection may have found some
// of these samples, because the session has moved. commit drops such utterances and the early
// transcription.
func (l *session) commit(c *contract.VoiceCommand) {
	in := &l.input

	kept := in.waiting[:0:0]
	for _, u := range in.waiting {
		if u.found && u.from < c.To && u.to > c.From {
			u.stop()
			continue
		}
		kept = append(kept, u)
	}

	// Detection restarts after the committed samples, so that these samples are not transcribed a
	// second time.
	in.waiting = kept
	in.drop()
	in.restart(c.To)
	l.wait(&utterance{item: c.Item, from: c.From, to: c.To})
}

// stop cancels the utterance's call, if one is running. The transcript of that call is ignored.
func (u *utterance) stop() {
	if u.cancel != nil {
		u.cancel()
	}
}

// wait adds an utterance to the queue for transcription. If the queue is full, wait reports that
// the transcription has failed.
func (l *session) wait(u *utterance) {
	// The rejection of an utterance is reported, so that the caller can repeat the utterance.
	if len(l.input.waiting) >= maxWaiting {
		l.untranscribed(u, errOverloaded)
		return
	}

	l.metrics.countHeard(u.to - u.from)
	l.input.waiting = append(l.input.waiting, u)
	l.transcribe(0)
}

// untranscribed reports that an utterance has no transcript, because of err.
func (l *session) untranscribed(u *utterance, err error) {
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Item: u.item, Failure: l.failure(err, speech.CodeTranscription)})
}

// bound drops the oldest audio of the session's tape if the tape is too long. It rejects waiting
// utterances whose audio was dropped.
func (l *session) bound() {
	in := &l.input
	if !in.tape.bound() {
		return
	}
	in.waiting = slices.DeleteFunc(in.waiting, func(u *utterance) bool {
		gone := u.cancel == nil && u.pcm == nil && u.from < in.tape.start
		if gone {
			l.untranscribed(u, errOverloaded)
		}
		return gone
	})
}

// transcribe starts to transcribe the first waiting utterance after a delay. It does nothing if
// that utterance is already being transcribed.
func (l *session) transcribe(after time.Duration) {
	if len(l.input.waiting) == 0 {
		return
	}
	switch u := l.input.waiting[0]; {
	case u.got != nil:
		got := *u.got
		u.got = nil
		l.handleTranscript(got)
	case u.cancel == nil:
		l.begin(u, after)
	}
}

// begin calls the backend for an utterance after a delay. The audio is copied at the first call, so
// that the tape can drop it. The outcome arrives through in.texts.
func (l *session) begin(u *utterance, after time.Duration) {
	if u.tries++; u.tries == 1 {
		u.pcm = l.input.tape.copyRange(u.from, u.to)
	}

	// The call runs in another goroutine, so it receives copies of the session's settings.
	request := speech.Utterance{Organization: l.org, PCM: u.pcm, Language: l.config.Language, Prompt: l.config.Prompt}
	u.language = request.Language
	u.cancel = l.call(func(ctx context.Context, begun func()) {
		request := request
		request.Begun = begun
		got := transcript{of: u}
		if got.err = lifecycle.Sleep(ctx, after); got.err == nil {
			got.text, got.err = l.callTranscriber(ctx, request)
		}
		got.err = outcome(ctx, got.err)
		select { // deliver the result even if the context of the call has ended
		case l.input.texts <- got:
		case <-l.ended:
		}
	})
}

// callTranscriber transcribes audio. The transcript of empty audio is empty.
func (l *session) callTranscriber(ctx context.Context, request speech.Utterance) (text string, err error) {
	// Audio is missing after a gap in the input, or if it was dropped.
	if len(request.PCM) == 0 {
		return "", nil
	}
	began := time.Now()
	defer func() { observe(l.metrics.transcription, began, err) }()
	defer contain.Panic(&err, &l.log, "speech backend panicked")
	return l.deps.Transcriber.Transcribe(ctx, request)
}

// handleTranscript processes the outcome of a transcription and starts the next transcription.
// Transcripts are reported in the order of the utterances.
func (l *session) handleTranscript(t transcript) {
	in := &l.input
	if len(in.waiting) == 0 || in.waiting[0] != t.of {
		t.of.got = &t // the utterance is not at the front, because it was transcribed early or dropped
		l.transcribe(0)
		return
	}

	t.of.cancel = nil
	switch again, after := l.shouldRetry(t.err, t.of.tries, "", t.of.language); {
	case again:
		l.transcribe(after)
		return
	case t.err != nil:
		l.untranscribed(t.of, t.err)
	default:
		l.report(contract.VoiceReport{Type: contract.VoiceTranscript, Item: t.of.item, Text: t.text})
	}

	in.waiting = in.waiting[1:]
	l.transcribe(0)
}
