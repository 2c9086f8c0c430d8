package voice

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"parley/shared/contract"
	"parley/workers/internal/speech"
	"parley/workers/internal/voice/activity"
)

// maxWaiting is how many utterances wait for their transcripts, as many as an ingress lets.
const maxWaiting = 64

// errOverloaded is why an utterance is not transcribed. An ingress lets no more wait than this either; a worker does not count on that.
var errOverloaded = &speech.Error{
	Code: speech.CodeOverloaded, Message: "Too much audio is waiting for transcription; wait, then repeat it.",
}

// input is what a line listens to.
type input struct {
	tape      tape
	from      int64              // listening begins there
	since     int64              // what is before was dealt with
	detector  *activity.Detector // nil: turns end by command
	detection contract.VoiceDetection
	item      string // of the speech that there is
	told      int64  // sample that the last alive told

	waiting []*utterance // the first one is being transcribed
	early   *utterance   // is being transcribed, too, though it may not have ended; nil: none
	texts   chan text
}

// utterance is what is to be transcribed.
type utterance struct {
	item     string
	from, to int64
	last     int64 // of one that was found: the sample behind which nothing was heard
	found    bool  // by this line, and not committed by command
	tries    int
	pcm      []byte             // once it was begun
	language string             // that it was said to be in
	cancel   context.CancelFunc // nil: not begun
	got      *text              // that came before its turn
}

// text is what became of an utterance.
type text struct {
	of   *utterance
	text string
	err  error
}

func newInput(open contract.VoiceOpen) input {
	in := input{tape: tape{start: open.Position}, from: open.Position, since: open.Position, told: open.Position, texts: make(chan text)}
	d := open.Config.Detection
	if d != nil {
		in.detection = *d
	}
	switch s := open.Speech; {
	case d == nil:
	case s != nil: // what is before it is for what is committed
		in.from, in.item = max(s.From, open.Position), s.Item
		in.detector = activity.Resume(activity.Settings(*d), in.from, s.From)
	default:
		in.detector = activity.New(activity.Settings(*d), open.Position)
	}
	return in
}

// configure goes by d from here on. What was listened to by command alone begins no speech, and speech that there is when
// listening ends waits for the command.
func (in *input) configure(d *contract.VoiceDetection) {
	if d != nil {
		in.detection = *d
	}
	switch {
	case d == nil && in.detector != nil:
		in.since, in.detector, in.item = in.detector.Needs(), nil, ""
	case d != nil && in.detector == nil:
		in.from = max(in.tape.end(), in.from)
		in.detector = activity.New(activity.Settings(*d), in.from)
	case d != nil:
		in.detector.Configure(activity.Settings(*d))
	}
}

// restart takes what is before a sample as dealt with.
func (in *input) restart(at int64) {
	at = min(at, in.tape.end())
	in.since = max(in.since, at)
	if in.detector == nil {
		return
	}
	in.detector.Restart(at)
	if _, speaking := in.detector.Speaking(); !speaking {
		in.item = ""
	}
}

// needs gives the sample from which on the input is needed.
func (in *input) needs() int64 {
	needs := in.since
	if in.detector != nil {
		needs = in.detector.Needs()
	}
	for _, u := range in.waiting {
		needs = min(needs, u.from)
	}
	return max(needs, in.tape.start, in.tape.end()-maxTape)
}

// detect gives what speech there is in audio that is new.
func (in *input) detect(fresh []byte) []activity.Event {
	begins := in.tape.end() - int64(len(fresh)/sampleBytes)
	if in.detector == nil || in.tape.end() <= in.from {
		return nil
	}
	from := max(begins, in.from)
	if in.detector.Heard() != from { // the tape began anew
		in.detector, in.item = activity.New(activity.Settings(in.detection), from), ""
	}
	return in.detector.Write(fresh[sampleBytes*(from-begins):])
}

// listen takes input. Speech that begins is told before anything else is done.
func (l *line) listen(at int64, pcm []byte) {
	in := &l.input
	for _, e := range in.detect(in.tape.add(at, pcm)) {
		if e.Stopped {
			l.report(contract.VoiceReport{Type: contract.VoiceStopped, Item: in.item, From: e.From, To: e.To})
			l.wait(in.stopped(e))
			in.item, in.early = "", nil
			continue
		}
		in.item = "item_" + rand.Text()
		l.report(contract.VoiceReport{Type: contract.VoiceStarted, Item: in.item, From: e.From})
		l.deps.Prepare()
	}
	l.foresee()
	l.bound()
	if in.tape.end()-in.told >= rate/2 {
		l.alive()
	}
}

// foresee has speech transcribed that may have ended, so that its transcript is there when it has. When it goes on, that is dropped.
func (l *line) foresee() {
	in := &l.input
	last, pausing := int64(0), false
	if in.detector != nil {
		last, pausing = in.detector.Pausing()
	}
	if in.early != nil && (!pausing || in.early.last != last) {
		in.drop()
		l.deps.Prepare()
	}
	if !pausing || in.early != nil || len(in.waiting) > 0 {
		return
	}
	from, _ := in.detector.Speaking()
	in.early = &utterance{item: in.item, from: from, to: in.tape.end(), last: last, found: true}
	l.begin(in.early, 0)
}

// drop gives up what was begun early.
func (in *input) drop() {
	if in.early != nil {
		in.early.stop()
		in.early = nil
	}
}

// stopped gives the utterance that has ended: the one that was begun early, if nothing was heard since.
func (in *input) stopped(e activity.Event) *utterance {
	if u := in.early; u != nil && u.item == in.item && u.last == e.Last {
		u.to = e.To
		return u
	}
	in.drop()
	return &utterance{item: in.item, from: e.From, to: e.To, last: e.Last, found: true}
}

// commit has samples transcribed. Of a line that was taken up they may have been found anew, which nobody asked for.
func (l *line) commit(c *contract.VoiceCommand) {
	in := &l.input
	kept := in.waiting[:0:0]
	for _, u := range in.waiting {
		if u.found && u.from < c.To && u.to > c.From {
			u.stop()
			continue
		}
		kept = append(kept, u)
	}
	in.waiting = kept
	in.drop()
	in.restart(c.To)
	l.wait(&utterance{item: c.Item, from: c.From, to: c.To})
}

func (u *utterance) stop() {
	if u.cancel != nil {
		u.cancel()
	}
}

// wait has an utterance transcribed once those before it are.
func (l *line) wait(u *utterance) {
	if len(l.input.waiting) >= maxWaiting {
		l.untranscribed(u, errOverloaded)
		return
	}
	l.metrics.heard(u.to - u.from)
	l.input.waiting = append(l.input.waiting, u)
	l.transcribe(0)
}

func (l *line) untranscribed(u *utterance, err error) {
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Item: u.item, Failure: l.failure(err, speech.CodeTranscription)})
}

// bound drops input that is too much to keep, and what waits for its transcript with it: it is not understood by half.
func (l *line) bound() {
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

// transcribe begins with the first utterance that waits, after a while, unless that was begun early.
func (l *line) transcribe(after time.Duration) {
	if len(l.input.waiting) == 0 {
		return
	}
	switch u := l.input.waiting[0]; {
	case u.got != nil:
		got := *u.got
		u.got = nil
		l.transcribed(got)
	case u.cancel == nil:
		l.begin(u, after)
	}
}

// begin calls the backend, after a while.
func (l *line) begin(u *utterance, after time.Duration) {
	if u.tries++; u.tries == 1 {
		u.pcm = l.input.tape.copied(u.from, u.to)
	}
	asked := speech.Utterance{Organization: l.org, PCM: u.pcm, Language: l.config.Language, Prompt: l.config.Prompt}
	u.language = asked.Language
	u.cancel = l.call(func(ctx context.Context, begun func()) {
		asked := asked
		asked.Begun = begun
		got := text{of: u}
		if got.err = pause(ctx, after); got.err == nil {
			got.text, got.err = l.understand(ctx, asked)
		}
		got.err = outcome(ctx, got.err)
		select { // also when the call's time is over
		case l.input.texts <- got:
		case <-l.ended:
		}
	})
}

// understand has the backend transcribe what is not empty.
func (l *line) understand(ctx context.Context, asked speech.Utterance) (text string, err error) {
	if len(asked.PCM) == 0 {
		return "", nil
	}
	began := time.Now()
	defer func() { observe(l.metrics.transcription, began, err) }()
	defer l.contain(&err)
	return l.deps.Transcriber.Transcribe(ctx, asked)
}

// transcribed takes what became of an utterance, and goes on with the next.
func (l *line) transcribed(t text) {
	in := &l.input
	if len(in.waiting) == 0 || in.waiting[0] != t.of {
		t.of.got = &t // it came before its turn, or was not asked for any more
		l.transcribe(0)
		return
	}
	t.of.cancel = nil
	switch again, after := l.again(t.err, t.of.tries, "", t.of.language); {
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
