package voice

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/shared/contract"
)

const (
	// aliveEvery is the interval of alive reports. If an ingress receives nothing for several
	// intervals, it moves the session to another worker.
	aliveEvery = 500 * time.Millisecond
	// initialTime is the time in which a new session keeps all audio. When a session moves to this
	// worker, the ingress first sends audio, and then commands that may refer to this audio.
	initialTime = 5 * time.Second
)

// session is a voice session on this worker. Only the session's own goroutine accesses it. Calls of
// backends deliver their results through its channels. A session that moves to another worker has a
// new value there.
type session struct {
	*Server

	wire   end
	org    string // the organization that owns the session
	config contract.VoiceConfig
	opened time.Time
	input  input
	output output

	// call runs the function do, which calls a backend. The function do must call begun when the
	// turn of its call comes. The argument ctx of do ends when the session ends. It also ends when
	// the call has waited for waitTime, or has run for callTime.
	call  func(do func(ctx context.Context, begun func())) context.CancelFunc
	calls sync.WaitGroup
	ended <-chan struct{} // closed when the session has ended; results that arrive later are dropped
}

// newSession returns the state of a session. serve must be called exactly once.
func newSession(s *Server, wire end, open contract.VoiceOpen) *session {
	l := &session{Server: s, wire: wire, org: open.OrganizationID, config: open.Config, opened: time.Now()}
	l.input = newInput(open)
	l.output = newOutput()
	return l
}

// serve runs until ctx ends or no more frames arrive. It then waits until the session's calls have
// ended.
func (l *session) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.waitForCalls()
	defer cancel()

	// Calls may run longer than the loop below. They watch l.ended, so that they do not block on
	// the session's channels.
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

	// With the first report, the ingress knows that the session has begun.
	l.alive()
	frames := read(ctx, l.wire.Frames())
	// Only this goroutine accesses the session's state, so no lock is needed.
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

// limited returns the context for a call. The context ends after the duration waitTime. If begun is
// called in time, the context ends callTime after that moment instead. The cause of both ends is
// context.DeadlineExceeded. The caller must call cancel.
func limited(ctx context.Context) (limited context.Context, begun func(), cancel context.CancelFunc) {
	limited, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(waitTime, func() { end(context.DeadlineExceeded) })
	var once sync.Once
	begun = func() {
		// If the backend retries internally, it may call begun again. A second call must not extend
		// the time.
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

// outcome returns context.DeadlineExceeded instead of err if a time limit of the call has ended
// ctx. Backends report only that the context has ended.
func outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// waitForCalls waits for the session's cancelled calls, for at most endTime. A backend that ignores
// the cancellation must not keep the session's slot.
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

// handle processes a frame. It returns false if the frame closes the session.
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
	} // other types are ignored, because a later release may send them
	return true
}

// configure sets the settings of later calls. If c is nil, no setting changes.
func (l *session) configure(c *contract.VoiceConfig) {
	if c == nil {
		return
	}
	l.config = *c
	l.input.configure(c.Detection)
}

// alive reports that the worker is alive. The report contains the position up to which audio has
// been processed, and the position from which audio is still needed. alive also drops audio that is
// not needed any more.
func (l *session) alive() {
	needs := l.input.needs()
	if time.Since(l.opened) > initialTime {
		l.input.tape.forget(needs)
	}
	l.input.reported = l.input.tape.end()
	l.report(contract.VoiceReport{Type: contract.VoiceAlive, Heard: l.input.reported, Needs: needs})
}

// report sends a report to the ingress. A failure is only logged. If the connection is lost, the
// session's frames end as well.
func (l *session) report(r contract.VoiceReport) {
	if err := l.wire.Report(r); err != nil {
		l.log.Debug().Err(err).Str("report", r.Type).Msg("cannot send the context of a voice session")
	}
}
