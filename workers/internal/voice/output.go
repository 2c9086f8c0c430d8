package voice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/shared/contract"
	"parley/workers/internal/speech"
	"parley/workers/internal/voice/sentence"
)

const (
	segmentsMade = 2         // the one that is sent, and the one behind it
	maxSound     = 60 * rate // samples that are made and not sent, at most, as long as the backend waits
	overKept     = 16        // names of answers that are over, of which something may still come
)

var errGap = errors.New("a part of the answer is missing")

// output is what a line says.
type output struct {
	answers []*answer // the first one is being said
	over    []string
	due     *time.Timer // when more may be sent
	made    chan sound
	making  *segment // nil: no call is made
	cancel  context.CancelFunc
}

// answer is one that is being said.
type answer struct {
	id       string
	cutter   *sentence.Cutter
	next     int  // byte that its text comes from
	last     bool // all of it came
	skip     int64
	queue    []sentence.Segment // not begun
	segments []*segment         // made, or being made
	at       int64              // sample that is sent next
	pace     pace
}

// segment is a part of an answer as it is made and sent.
type segment struct {
	sentence.Segment

	of    *answer
	pcm   []byte // not sent
	size  int64  // samples that were made
	skip  int64  // and of how many that are to be made the first are not sent
	done  bool
	tries int
	asked speech.Line
}

// sound is what a backend made of a segment: a piece, or how it ended.
type sound struct {
	of   *segment
	pcm  []byte
	done bool
	err  error
}

func newOutput() output {
	due := time.NewTimer(time.Hour)
	due.Stop()
	return output{due: due, made: make(chan sound)}
}

// sounds brings what is made, as long as there is room for it.
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

// say takes more of an answer.
func (l *line) say(c *contract.VoiceCommand) {
	o := &l.output
	if slices.Contains(o.over, c.Answer) {
		return
	}
	n := slices.IndexFunc(o.answers, func(a *answer) bool { return a.id == c.Answer })
	if n < 0 {
		n = len(o.answers)
		o.answers = append(o.answers, &answer{id: c.Answer, cutter: sentence.New(c.Start), next: c.Start, skip: c.Skip, at: c.Skip})
	}
	a := o.answers[n]
	if c.Start > a.next {
		l.fail(a, errGap)
		return
	}
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

// stop says no more of an answer.
func (l *line) stop(id string) {
	o := &l.output
	o.answers = slices.DeleteFunc(o.answers, func(a *answer) bool { return a.id == id })
	if o.making != nil && o.making.of.id == id {
		o.cancel()
		o.making = nil
	}
	if o.over = append(o.over, id); len(o.over) > overKept {
		o.over = o.over[1:]
	}
	l.send() // of the next
}

// fail ends an answer that cannot be said.
func (l *line) fail(a *answer, err error) {
	l.report(contract.VoiceReport{Type: contract.VoiceFailed, Answer: a.id, Failure: l.failure(err, speech.CodeSpeech)})
	l.stop(a.id)
}

// synthesize has the next segment made, when there is one and it is time for it.
func (l *line) synthesize(a *answer) {
	for l.output.making == nil && len(a.queue) > 0 && len(a.segments) < segmentsMade {
		s := &segment{Segment: a.queue[0], of: a, skip: a.skip}
		a.queue, a.skip = a.queue[1:], 0
		a.segments = append(a.segments, s)
		if s.done = strings.TrimSpace(s.Text) == ""; !s.done {
			l.make(s, 0)
		}
	}
}

// make has a segment made, after a while.
func (l *line) make(s *segment, after time.Duration) {
	asked := speech.Line{Organization: l.org, Text: s.Text, Voice: l.config.Voice, Language: l.config.Language, Speed: l.config.Speed}
	s.tries++
	s.asked = asked
	l.output.making = s
	l.output.cancel = l.call(func(ctx context.Context, begun func()) {
		asked := asked
		asked.Begun = begun
		err := pause(ctx, after)
		if err == nil {
			err = l.speak(ctx, asked, func(pcm []byte) error { return l.give(ctx, sound{of: s, pcm: slices.Clone(pcm)}) })
		}
		select { // also when the call's time is over
		case l.output.made <- sound{of: s, done: true, err: outcome(ctx, err)}:
		case <-l.ended:
		}
	})
}

// give hands a piece of sound to the line's goroutine.
func (l *line) give(ctx context.Context, piece sound) error {
	select {
	case l.output.made <- piece:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// speak has the backend make sound. The time that it is kept waiting is not its own.
func (l *line) speak(ctx context.Context, asked speech.Line, out func([]byte) error) (err error) {
	began, first := time.Now(), true
	defer func() { observe(l.metrics.synthesis, began, err) }()
	defer l.contain(&err)
	return l.deps.Synthesizer.Synthesize(ctx, asked, func(pcm []byte) error {
		if first && len(pcm) > 0 {
			l.metrics.first.Observe(time.Since(began).Seconds())
			first = false
		}
		return out(pcm)
	})
}

// sounded takes what was made.
func (l *line) sounded(made sound) {
	s := made.of
	if s != l.output.making {
		return // it was stopped
	}
	if !made.done {
		s.add(made.pcm)
		l.send()
		return
	}
	l.output.making = nil
	switch again, after := l.again(made.err, s.tries, s.asked.Voice, s.asked.Language); {
	case again: // what was made is made once more, and not sent again
		s.skip, s.size = max(s.skip, s.size), 0
		l.make(s, after)
	case made.err != nil:
		l.fail(s.of, made.err)
	default:
		s.done = true
		l.send()
	}
}

// add takes sound, but for what was had before.
func (s *segment) add(pcm []byte) {
	samples := int64(len(pcm) / sampleBytes)
	had := min(samples, max(0, s.skip-s.size))
	s.size += samples
	s.pcm = append(s.pcm, pcm[sampleBytes*had:sampleBytes*samples]...)
}

// send sends what may be sent, and tells what was said; the rest waits for its time.
func (l *line) send() {
	o := &l.output
	for len(o.answers) > 0 {
		a := o.answers[0]
		l.synthesize(a)
		if len(a.segments) == 0 {
			if !a.last {
				return // more is to come
			}
			l.report(contract.VoiceReport{Type: contract.VoiceSaid, Answer: a.id})
			l.done(a)
			continue
		}
		s := a.segments[0]
		if !l.sendFor(a, s) || !s.done {
			return
		}
		l.report(contract.VoiceReport{Type: contract.VoiceSegment, Answer: a.id, Start: s.Start, End: s.End, Samples: max(s.size, s.skip)})
		a.segments = a.segments[1:]
	}
}

// done takes the first answer off.
func (l *line) done(a *answer) {
	o := &l.output
	o.answers = o.answers[1:]
	if o.over = append(o.over, a.id); len(o.over) > overKept {
		o.over = o.over[1:]
	}
}

// sendFor sends what there is of a segment; true when that is all.
func (l *line) sendFor(a *answer, s *segment) bool {
	for len(s.pcm) > 0 {
		now := time.Now()
		n := min(maxFrame, int64(len(s.pcm)/sampleBytes))
		if n < maxFrame && !s.done && a.pace.ahead(now) > startFrame {
			l.output.due.Reset(lasts(a.pace.ahead(now) - startFrame)) // more comes before that
			return false
		}
		if wait := a.pace.wait(now, n); wait > 0 {
			l.output.due.Reset(wait)
			return false
		}
		audio := contract.VoiceAudio{At: a.at, Answer: a.id, Start: s.Start, End: s.End, PCM: s.pcm[:sampleBytes*n]}
		if err := l.wire.Audio(audio); err != nil {
			l.log.Debug().Err(err).Msg("cannot send audio of a voice session")
		}
		s.pcm = s.pcm[sampleBytes*n:]
		a.at += n
		a.pace.sent(now, n)
		l.metrics.said(n)
	}
	return true
}
