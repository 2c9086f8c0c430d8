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
	// settleTime is how long a new session keeps all audio. When a session moves to this worker,
	// commands that still need earlier audio arrive after the audio.
	settleTime = 5 * time.Second
)

// session is one voice session. Only its goroutine accesses it; backend calls deliver their results
// through its channels.
type session struct {
	*Server

	wire   end
	org    string // the organization that owns the session
	config contract.VoiceConfig
	opened time.Time
	input  input
	output output

	// call runs a backend call. Its context ends with the session, or when the call has waited or
	// run for too long. The call's time limit starts when it calls begun; until then it is waiting
	// for its turn.
	call  func(do func(ctx context.Context, begun func())) context.CancelFunc
	calls sync.WaitGroup
	ended <-chan struct{} // closed when the session has ended: results of calls are then dropped
}

func newSession(s *Server, wire end, open contract.VoiceOpen) *session {
	l := &session{Server: s, wire: wire, org: open.OrganizationID, config: open.Config, opened: time.Now()}
	l.input = newInput(open)
	l.output = newOutput()
	return l
}

// serve runs until ctx ends or the frames do. It then waits for the session's calls.
func (l *session) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.waitForCalls()
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
			if !ok || !l.handle(f) {
				return
			}
		case <-alive.C:
			l.alive()
		case text := <-l.input.texts:
			l.handleTranscript(text)
		case sound := <-l.output.sounds():
			l.handleSound(sound)
		case <-l.output.due.C:
			l.send()
		}
	}
}

// limited returns a call's context. It ends after waitTime, or callTime after begun was called.
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

// outcome returns context.DeadlineExceeded if the call's time limit was the cause of err, because
// backends do not know the limit.
func outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// waitForCalls waits for the cancelled calls, for at most endTime.
func (l *session) waitForCalls() {
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

// handle processes a frame. It returns false if the session was closed.
func (l *session) handle(f frame) bool {
	if f.Audio != nil {
		l.handleAudio(f.Audio.At, f.Audio.PCM)
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
	} // a later release may send more types
	return true
}

func (l *session) configure(c *contract.VoiceConfig) {
	if c == nil {
		return
	}
	l.config = *c
	l.input.configure(c.Detection)
}

// alive reports that the worker is alive, how far it has processed the audio, and which audio it
// still needs.
func (l *session) alive() {
	needs := l.input.needs()
	if time.Since(l.opened) > settleTime {
		l.input.tape.forget(needs)
	}
	l.input.reported = l.input.tape.end()
	l.report(contract.VoiceReport{Type: contract.VoiceAlive, Heard: l.input.reported, Needs: needs})
}

// report sends a report to the ingress. If the session is lost, its frames end, so a failure is
// only logged.
func (l *session) report(r contract.VoiceReport) {
	if err := l.wire.Report(r); err != nil {
		l.log.Debug().Err(err).Str("report", r.Type).Msg("cannot send the context of a voice session")
	}
}
