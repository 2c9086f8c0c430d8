package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

// voiceSilentChecks is the number of checks during which an ingress may be silent. An ingress pings
// every 2 s.
const voiceSilentChecks = int(10 * time.Second / voiceCheckInterval)

// VoiceOptions configures how a worker serves voice sessions.
type VoiceOptions struct {
	Slots int // maximum number of sessions
	// Transcription is the name of the model that transcribes speech. Callers get it when they open
	// a session.
	Transcription string
	// Admit verifies the capability of a request to open a session, and the request's body. It
	// returns the session's name, or false to reject the request. Admit is called before a slot is
	// taken, from one goroutine, and must be fast.
	Admit func(capability string, body []byte) (session string, ok bool)
	// Serve serves a session. ctx ends when the session ends, and the session ends when Serve
	// returns.
	Serve func(ctx context.Context, body []byte, session *WorkerVoiceSession)
}

// voiceServer serves voice sessions in a worker. A session occupies a slot from its acceptance
// until Serve has returned.
type voiceServer struct {
	board *voiceBoard[contract.VoiceCommand]
	cfg   VoiceOptions

	mu       sync.Mutex
	leaving  bool
	inUse    int                                          // taken slots
	sessions map[string]*voiceWire[contract.VoiceCommand] // the newest session of each name
	idle     chan struct{}                                // closed when the server is leaving and no slot is taken
}

// ServeVoice accepts voice sessions. The sessions are divided among all workers that call
// ServeVoice. A new session at this worker replaces an earlier session with the same name.
//
// The function stop rejects further sessions and notifies the open sessions that the worker is
// leaving. It waits for all calls of Serve to return. If the context of stop ends first, stop
// cancels the remaining sessions.
func (b *Bus) ServeVoice(cfg VoiceOptions) (stop func(ctx context.Context), err error) {
	s := &voiceServer{cfg: cfg, sessions: map[string]*voiceWire[contract.VoiceCommand]{}, idle: make(chan struct{})}
	s.board = &voiceBoard[contract.VoiceCommand]{
		nc: b.nc, log: b.log, patience: voiceSilentChecks,
		closes: func(c contract.VoiceCommand) bool { return c.Type == contract.VoiceClose },
	}
	if err := s.board.start(); err != nil {
		return nil, err
	}

	work, cancel := context.WithCancel(context.Background())
	sub, err := b.nc.QueueSubscribe(contract.SubjectVoiceOpen, contract.VoiceGroup, func(m *nats.Msg) { s.receive(work, m) })
	if err != nil {
		cancel()
		s.board.close()
		return nil, fmt.Errorf("subscribing to voice sessions: %w", err)
	}

	_ = b.flush(work) // after the flush, callers find this worker; without a connection, they find it once the connection is restored
	return func(ctx context.Context) { s.stop(ctx, sub, cancel) }, nil
}

// receive accepts a session or rejects it. It runs in the subscription's goroutine.
func (s *voiceServer) receive(work context.Context, m *nats.Msg) {
	// The capability is verified before a slot is taken, so that a forged request takes no slot.
	session, ok := s.cfg.Admit(m.Header.Get(contract.HeaderCapability), m.Data)
	if !ok || m.Reply == "" {
		s.board.sendStage(m.Reply, "", contract.StageRefused)
		return
	}

	ctx, cancel := context.WithCancel(work)
	wire := s.takeSlot(session, m.Reply, cancel)
	if wire == nil {
		cancel()
		s.board.sendStage(m.Reply, "", contract.StageBusy)
		return
	}

	// If the caller is gone, the NATS server replies "no responders", and the session ends.
	s.board.send(m.Reply, wire.own, contract.StageAccepted, s.cfg.Transcription)
	go func() {
		defer s.release(session, wire)
		s.cfg.Serve(ctx, m.Data, &WorkerVoiceSession{wire})
	}()
}

// takeSlot takes a slot for a session, or returns nil if none is free. It ends an earlier session
// with the same name, whose slot becomes free soon afterwards.
func (s *voiceServer) takeSlot(session, peer string, cancel context.CancelFunc) *voiceWire[contract.VoiceCommand] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return nil
	}

	// If a session with this name exists, the ingress has given it up, because only then does an
	// ingress open a session again.
	if old := s.sessions[session]; old != nil {
		s.board.end(old, voiceGone)
	}

	// An earlier session with this name still occupies its slot until its Serve has returned.
	if s.inUse >= s.cfg.Slots {
		return nil
	}

	wire := s.board.wire(peer, cancel)
	if wire == nil {
		return nil
	}

	s.inUse++
	s.sessions[session] = wire
	return wire
}

// release frees a session's slot after Serve has returned.
func (s *voiceServer) release(session string, wire *voiceWire[contract.VoiceCommand]) {
	s.board.end(wire, voiceStop)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse--
	if s.sessions[session] == wire {
		delete(s.sessions, session)
	}
	s.closeIfIdle()
}

// closeIfIdle closes the channel idle if no slot is taken. The caller must hold s.mu.
func (s *voiceServer) closeIfIdle() {
	if s.leaving && s.inUse == 0 {
		close(s.idle)
	}
}

// startLeaving stops accepting sessions and returns the open sessions.
func (s *voiceServer) startLeaving() []*WorkerVoiceSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return nil
	}
	s.leaving = true
	s.closeIfIdle()
	ends := make([]*WorkerVoiceSession, 0, len(s.sessions))
	for _, wire := range s.sessions {
		ends = append(ends, &WorkerVoiceSession{wire})
	}
	return ends
}

// stop ends the service. Requests to open a session that have arrived but were not read yet are
// rejected, so that another worker takes them.
func (s *voiceServer) stop(ctx context.Context, sub *nats.Subscription, cancel context.CancelFunc) {
	defer cancel()

	// Meanwhile, the ingresses move the open sessions to other workers. This worker serves the
	// sessions until then.
	ends := s.startLeaving()
	_ = sub.Drain() // fails only if the connection is closed
	for _, end := range ends {
		_ = end.Report(contract.VoiceReport{Type: contract.VoiceLeaving}) // an error means that the session has already ended
	}

	select {
	case <-s.idle:
	case <-ctx.Done():
		cancel()
		grace := time.NewTimer(cancelGrace)
		defer grace.Stop()
		select {
		case <-s.idle:
		case <-grace.C:
			s.board.log.Warn().Msg("voice sessions did not stop after they were cancelled")
		}
	}

	s.board.close()
	_ = s.board.nc.FlushTimeout(flushTimeout) // if the message is lost, the other end notices the silence
}

// WorkerVoiceSession is a worker's end of a voice session. It is safe for concurrent use.
type WorkerVoiceSession struct {
	wire *voiceWire[contract.VoiceCommand]
}

// Frames returns the frames from the ingress, in order and without gaps, including VoiceClose.
// After that, or when the session is lost, the channel is closed. A session is lost if its
// reader lags, nothing arrives for 10 s, or the bus is unreachable.
func (e *WorkerVoiceSession) Frames() <-chan contract.VoiceFrame[contract.VoiceCommand] {
	return e.wire.frames
}

// Report sends a report to the ingress. An error means that the session is lost or that the
// report cannot be encoded.
func (e *WorkerVoiceSession) Report(report contract.VoiceReport) error {
	return e.wire.send(func(b []byte) ([]byte, error) { return contract.AppendVoiceControl(b, report) })
}

// Audio sends samples of an answer. Audio does not retain the samples.
func (e *WorkerVoiceSession) Audio(audio contract.VoiceAudio) error { return e.wire.audio(audio) }
