package voice

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/shared/contract"
)

const (
	aliveEvery = 500 * time.Millisecond
	// settleTime is how long all of the input is kept: what is to be transcribed of a line that was taken up is told behind it.
	settleTime = 5 * time.Second
)

// line is a voice line. Its goroutine alone touches it; backends' calls give their results through its channels.
type line struct {
	*Server

	wire   end
	org    string // whose speech it is
	config contract.VoiceConfig
	opened time.Time
	input  input
	output output

	// call makes a backend's call, which ends with the line or once it has taken too long, unless it is cancelled. The time that it waits
	// for its turn, until it says that it has begun, is another's.
	call  func(do func(ctx context.Context, begun func())) context.CancelFunc
	calls sync.WaitGroup
	ended <-chan struct{} // closed when the line has ended: nobody takes what calls give
}

func newLine(s *Server, wire end, open contract.VoiceOpen) *line {
	l := &line{Server: s, wire: wire, org: open.OrganizationID, config: open.Config, opened: time.Now()}
	l.input = newInput(open)
	l.output = newOutput()
	return l
}

// serve goes on until ctx or the frames end, and leaves no call behind.
func (l *line) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.leave()
	defer cancel()
	l.ended = ctx.Done()
	l.call = func(do func(context.Context, func())) context.CancelFunc {
		ctx, begun, cancel := limited(ctx)
		l.calls.Go(func() {
			defer cancel()
			do(ctx, begun)
		})
		return cancel
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	defer l.output.due.Stop()
	l.alive()
	frames := read(ctx, l.wire.Frames())
	for {
		select {
		case <-ctx.Done():
			return
		case f, ok := <-frames:
			if !ok || !l.take(f) {
				return
			}
		case <-alive.C:
			l.alive()
		case text := <-l.input.texts:
			l.transcribed(text)
		case sound := <-l.output.sounds():
			l.sounded(sound)
		case <-l.output.due.C:
			l.send()
		}
	}
}

// limited gives a call's context, which ends when it has waited too long, or once it has begun has taken too long.
func limited(ctx context.Context) (limited context.Context, begun func(), cancel context.CancelFunc) {
	limited, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(waitTime, func() { end(context.DeadlineExceeded) })
	var once sync.Once
	begun = func() {
		once.Do(func() {
			if late.Stop() {
				late.Reset(callTime)
			}
		})
	}
	return limited, begun, func() {
		late.Stop()
		end(nil)
	}
}

// outcome tells why a call failed: that it had no more time is nothing that its backend knows.
func outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// leave waits for the calls that were cancelled, but not for one that does not end.
func (l *line) leave() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.calls.Wait()
	}()
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		l.log.Warn().Msg("a speech backend did not stop after it was cancelled")
	}
}

// take takes what came; false when the line was closed.
func (l *line) take(f frame) bool {
	if f.Audio != nil {
		l.listen(f.Audio.At, f.Audio.PCM)
		return true
	}
	switch c := f.Control; c.Type {
	case contract.VoiceClose:
		return false
	case contract.VoiceConfigure:
		l.configure(c.Config)
	case contract.VoiceCommit:
		l.commit(c)
	case contract.VoiceClear:
		l.input.restart(c.From)
	case contract.VoiceSay:
		l.say(c)
	case contract.VoiceStop:
		l.stop(c.Answer)
	} // of a later release there may be more
	return true
}

func (l *line) configure(c *contract.VoiceConfig) {
	if c == nil {
		return
	}
	l.config = *c
	l.input.configure(c.Detection)
}

// alive tells that the worker is there, what it listened to, and what it needs no more.
func (l *line) alive() {
	needs := l.input.needs()
	if time.Since(l.opened) > settleTime {
		l.input.tape.forget(needs)
	}
	l.input.told = l.input.tape.end()
	l.report(contract.VoiceReport{Type: contract.VoiceAlive, Heard: l.input.told, Needs: needs})
}

// report tells the ingress something. A line that is lost ends by its frames: there is nothing else to do.
func (l *line) report(r contract.VoiceReport) {
	if err := l.wire.Report(r); err != nil {
		l.log.Debug().Err(err).Str("report", r.Type).Msg("cannot send the context of a voice session")
	}
}
