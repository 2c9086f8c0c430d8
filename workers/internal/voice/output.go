package voice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/lifecycle"
	"parley/workers/internal/speech"
	"parley/workers/internal/voice/sentence"
)

const (
	maxSegments = 2         // maximum number of segments that are synthesized: the segment that is being sent, and the next one
	maxSound    = 60 * rate // number of synthesized samples that may wait to be sent; when it is reached, the backend must wait
	maxFinished = 16        // number of finished answers whose ids are stored, because commands for them may still arrive
)

// errGap means that a part of an answer's text was lost on the bus.
var errGap = errors.New("a part of the answer is missing")

// output is the state of the answers that a session speaks. Answers are spoken one after the other.
type output struct {
	answers []*answer // answers to be spoken; the first is being spoken
	// finished contains the ids of answers that have ended, the latest last.
	finished []string
	due      *time.Timer // timer that fires when more audio may be sent
	// made delivers synthesized audio from the goroutine of a call.
	made    chan sound
	current *segment // segment that is being synthesized; nil while no call is running
	cancel  context.CancelFunc
}

// answer is an answer that is spoken while its text is still arriving. Its text is divided into
// segments, which are synthesized in order. While one segment is being sent, the next segment is
// synthesized.
type answer struct {
	id     string
	cutter *sentence.Cutter
	next   int  // offset of the next byte of text that is expected
	last   bool // true if all of the text has arrived
	// skip is the number of samples at the beginning that were sent before the session moved to
	// this worker.
	skip     int64
	queue    []sentence.Segment // segments that have not been synthesized
	segments []*segment         // segments that have been or are being synthesized
	at       int64              // position of the next sample to be sent
	pace     pace
}

// segment is a part of an answer, together with its audio. Sizes are numbers of samples.
type segment struct {
	sentence.Segment

	of   *answer
	pcm  []byte // audio that has not been sent
	size int64  // number of samples synthesized so far
	skip int64  // number of samples at the beginning of the segment that are not sent
	// done is true if all of the audio has been synthesized, and tries is the number of calls so
	// far.
	done  bool
	tries int
	// request is the request of the last call.
	request speech.Line
}

// sound is a piece of a segment's audio, or the end of the segment's synthesis.
type sound struct {
	of   *segment
	pcm  []byte
	done bool
	err  error
}

// newOutput returns the state of a session without answers. The timer of this state is stopped.
func newOutput() output {
	due := time.NewTimer(time.Hour)
	due.Stop()
	return output{due: due, made: make(chan sound)}
}

// sounds returns the channel that delivers synthesized audio. While more than maxSound samples wait
// to be sent, sounds returns nil, so that no audio is received. The backend then waits in its call
// of the function out.
func (o *output) sounds() <-chan sound {
	if len(o.answers) > 0 {
		var waiting int64
		for _, s := range o.answers[0].segments {
			waiting += int64(len(s.pcm) / sampleBytes)
		}
		if waiting > maxSound {
			return nil
		}
	}
	return o.made
}

// say appends text to an answer, and begins the answer if it is new. A gap in the text ends the
// answer with a failure.
func (l *session) say(c *contract.VoiceCommand) {
	o := &l.output

	// The answer has already ended: the ingress sent the command before it received the report of
	// the end.
	if slices.Contains(o.finished, c.Answer) {
		return
	}

	// The first text of an answer creates the answer. If the session has moved, this text may be in
	// the middle of the answer.
	n := slices.IndexFunc(o.answers, func(a *answer) bool { return a.id == c.Answer })
	if n < 0 {
		n = len(o.answers)
		o.answers = append(o.answers, &answer{id: c.Answer, cutter: sentence.New(c.Start), next: c.Start, skip: c.Skip, at: c.Skip})
	}

	// Commands arrive in order, so a gap in the text can no longer be filled.
	a := o.answers[n]
	if c.Start > a.next {
		l.fail(a, errGap)
		return
	}

	// A command may repeat text that has already arrived. The repeated text is skipped.
	if !a.last {
		more := c.Text[min(len(c.Text), a.next-c.Start):]
		a.next += len(more)
		a.queue = append(a.queue, a.cutter.Write(more)...)
		if c.Last {
			a.last = true
			a.queue = append(a.queue, a.cutter.Close()...)
		}
	}
	l.send()
}

// stop ends an answer without speaking the remaining text. It may be called for an answer that has
// ended or that does not exist.
func (l *session) stop(id string) {
	o := &l.output
	o.answers = slices.DeleteFunc(o.answers, func(a *answer) bool { return a.id == id })

	// Results of the cancelled call are ignored, because they do not belong to the current segment.
	if o.current != nil && o.current.of.id == id {
		o.cancel()
		o.current = nil
	}

	if o.finished = append(o.finished, id); len(o.finished) > maxFinished {
		o.finished = o.finished[1:]
	}
	l.send() // continue with the next answer
}

// fail reports that an answer cannot be spoken, and stops the answer.
func (l *session) fail(a *answer, err error) {
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Answer: a.id, Failure: l.failure(err, speech.CodeSpeech)})
	l.stop(a.id)
}

// synthesize starts to synthesize the next segment of an answer. It does nothing while a call is
// running, while maxSegments segments of the answer are unsent, or if no segment is queued.
func (l *session) synthesize(a *answer) {
	for l.output.current == nil && len(a.queue) > 0 && len(a.segments) < maxSegments {
		// The samples to be skipped are part of the first segment.
		s := &segment{Segment: a.queue[0], of: a, skip: a.skip}
		a.queue, a.skip = a.queue[1:], 0
		a.segments = append(a.segments, s)

		// A segment without text has no audio, but its end is reported in order, like the end of
		// other segments.
		if s.done = strings.TrimSpace(s.Text) == ""; !s.done {
			l.make(s, 0)
		}
	}
}

// make starts to synthesize a segment after a delay. Pieces of audio and the end of the call arrive
// through output.made.
func (l *session) make(s *segment, after time.Duration) {
	// The call runs in another goroutine, so it receives copies of the session's settings.
	request := speech.Line{Organization: l.org, Text: s.Text, Voice: l.config.Voice, Language: l.config.Language, Speed: l.config.Speed}
	s.tries++
	s.request = request
	l.output.current = s
	l.output.cancel = l.call(func(ctx context.Context, begun func()) {
		request := request
		request.Begun = begun
		err := lifecycle.Sleep(ctx, after)
		if err == nil {
			err = l.callSynthesizer(ctx, request, func(pcm []byte) error { return l.deliver(ctx, sound{of: s, pcm: slices.Clone(pcm)}) })
		}
		select { // deliver the result even if the context of the call has ended
		case l.output.made <- sound{of: s, done: true, err: outcome(ctx, err)}:
		case <-l.ended:
		}
	})
}

// deliver passes a piece of audio from the goroutine of a call to the goroutine of the session. It
// waits while the session cannot take more audio, and fails if ctx ends.
func (l *session) deliver(ctx context.Context, piece sound) error {
	select {
	case l.output.made <- piece:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// callSynthesizer calls the backend and measures the time until the first audio arrives.
func (l *session) callSynthesizer(ctx context.Context, request speech.Line, out func([]byte) error) (err error) {
	began, first := time.Now(), true
	defer func() { observe(l.metrics.synthesis, began, err) }()
	defer contain.Panic(&err, &l.log, "speech backend panicked")
	return l.deps.Synthesizer.Synthesize(ctx, request, func(pcm []byte) error {
		if first && len(pcm) > 0 {
			l.metrics.first.Observe(time.Since(began).Seconds())
			first = false
		}
		return out(pcm)
	})
}

// handleSound processes a piece of audio, or the end of a segment's synthesis. It ignores results
// of calls that were cancelled.
func (l *session) handleSound(made sound) {
	s := made.of
	if s != l.output.current {
		return // the answer has been stopped
	}

	// Audio is sent as soon as it arrives, while the rest of the segment is still being
	// synthesized.
	if !made.done {
		s.add(made.pcm)
		l.send()
		return
	}

	l.output.current = nil
	switch again, after := l.shouldRetry(made.err, s.tries, s.request.Voice, s.request.Language); {
	case again: // the segment is synthesized again from its beginning, so skip the samples that have already arrived
		s.skip, s.size = max(s.skip, s.size), 0
		l.make(s, after)
	case made.err != nil:
		l.fail(s.of, made.err)
	default:
		s.done = true
		l.send()
	}
}

// add appends audio to a segment. It skips samples that an earlier call has delivered.
func (s *segment) add(pcm []byte) {
	samples := int64(len(pcm) / sampleBytes)
	had := min(samples, max(0, s.skip-s.size))
	s.size += samples
	s.pcm = append(s.pcm, pcm[sampleBytes*had:sampleBytes*samples]...)
}

// send sends as much audio as the pace allows, and reports finished segments and answers. If audio
// remains, send is called again when the timer fires. send also starts the synthesis of the next
// segment, so send is called after each change of the output.
func (l *session) send() {
	o := &l.output
	for len(o.answers) > 0 {
		a := o.answers[0]
		l.synthesize(a)
		if len(a.segments) == 0 {
			if !a.last {
				return // more audio will arrive
			}
			l.report(contract.VoiceReport{Type: contract.VoiceSaid, Answer: a.id})
			l.done(a)
			continue
		}

		// The end of a segment is reported when all of its audio has been sent.
		s := a.segments[0]
		if !l.sendFor(a, s) || !s.done {
			return
		}
		l.report(contract.VoiceReport{Type: contract.VoiceSegment, Answer: a.id, Start: s.Start, End: s.End, Samples: max(s.size, s.skip)})
		a.segments = a.segments[1:]
	}
}

// done removes the first answer, which has ended, and stores its id for later commands.
func (l *session) done(a *answer) {
	o := &l.output
	o.answers = o.answers[1:]
	if o.finished = append(o.finished, a.id); len(o.finished) > maxFinished {
		o.finished = o.finished[1:]
	}
}

// sendFor sends as much audio of a segment as the pace allows, in frames of at most maxFrame
// samples. It returns true if all available audio has been sent. Otherwise it has set the timer.
func (l *session) sendFor(a *answer, s *segment) bool {
	for len(s.pcm) > 0 {
		now := time.Now()
		n := min(maxFrame, int64(len(s.pcm)/sampleBytes))
		if n < maxFrame && !s.done && a.pace.ahead(now) > startFrame {
			l.output.due.Reset(playTime(a.pace.ahead(now) - startFrame)) // send the next audio before the client runs out of audio
			return false
		}
		if wait := a.pace.wait(now, n); wait > 0 {
			l.output.due.Reset(wait)
			return false
		}

		// The range in the text lets the ingress determine which words have been spoken.
		audio := contract.VoiceAudio{At: a.at, Answer: a.id, Start: s.Start, End: s.End, PCM: s.pcm[:sampleBytes*n]}
		if err := l.wire.Audio(audio); err != nil {
			l.log.Debug().Err(err).Msg("cannot send audio of a voice session")
		}

		s.pcm = s.pcm[sampleBytes*n:]
		a.at += n
		a.pace.sent(now, n)
		l.metrics.countSpoken(n)
	}
	return true
}
