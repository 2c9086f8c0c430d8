package voice

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/shared/contract"
)

const (
	// An ingress that receives nothing for several of these intervals moves the session.
	aliveEvery = 500 * time.Millisecond
	// settleTime is the time for which a new session keeps all audio. When a session moves here,
	// the ingress first sends audio, and then commands that may refer to that audio.
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

	// call runs do, which calls a backend. The call's context ends with the session, or when the
	// call has waited or run for too long. When do has waited for its turn, it calls begun; from
	// then on, the time limit for running applies.
	call  func(do func(ctx context.Context, begun func())) context.CancelFunc
	calls sync.WaitGroup
	ended <-chan struct{} // closed when the session has ended; later results of calls are dropped
}

// newSession returns the state of a session. serve must be called once.
func newSession(s *Server, wire end, open contract.VoiceOpen) *session {
	l := &session{Server: s, wire: wire, org: open.OrganizationID, config: open.Config, opened: time.Now()}
	l.input = newInput(open)
	l.output = newOutput()
	return l
}

// serve runs until ctx ends or no more frames arrive. It then waits for the session's calls.
func (l *session) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.waitForCalls()
	defer cancel()

	// Calls outlive the loop below for a moment, so they must not block on its channels.
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

	// The first report confirms to the ingress that the session has begun.
	l.alive()
	frames := read(ctx, l.wire.Frames())
	// All state is changed here, in one goroutine, so it needs no lock.
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

// limited returns the context for a call. It ends waitTime after the start, or callTime after begun
// was called.
func limited(ctx context.Context) (limited context.Context, begun func(), cancel context.CancelFunc) {
	limited, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(waitTime, func() { end(context.DeadlineExceeded) })
	var once sync.Once
	begun = func() {
		// A retry inside the backend may call begun again, which must not extend the time.
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

// outcome replaces err by context.DeadlineExceeded if a time limit of the call caused it. Backends
// report only that the context has ended.
func outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// waitForCalls waits for the session's cancelled calls, but at most for endTime.
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
	} // ignore types that a later release may send
	return true
}

// configure applies new settings to later calls. A nil config leaves all settings unchanged.
func (l *session) configure(c *contract.VoiceConfig) {
	if c == nil {
		return
	}
	l.config = *c
	l.input.configure(c.Detection)
}

// alive reports that the worker is alive, up to which position it has processed the audio, and from
// which position it still needs the audio.
func (l *session) alive() {
	needs := l.input.needs()
	if time.Since(l.opened) > settleTime {
		l.input.tape.forget(needs)
	}
	l.input.reported = l.input.tape.end()
	l.report(contract.VoiceReport{Type: contract.VoiceAlive, Heard: l.input.reported, Needs: needs})
}

// report sends a report to the ingress. If sending fails, the session's frames will end, too, so
// the failure is only logged.
func (l *session) report(r contract.VoiceReport) {
	if err := l.wire.Report(r); err != nil {
		l.log.Debug().Err(err).Str("report", r.Type).Msg("cannot send the context of a voice session")
	}
}
