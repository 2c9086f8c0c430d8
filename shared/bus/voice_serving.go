package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
)

// voiceUnheardLooks is how long an ingress may be silent, which pings every 2 s.
const voiceUnheardLooks = int(10 * time.Second / voiceLook)

// VoiceServing is how a worker serves lines.
type VoiceServing struct {
	Places int // lines at a time
	// Admit verifies the capability of an opening over its body and names the line; false refuses it. It is called before a
	// place is taken, from one goroutine, and must be quick.
	Admit func(capability string, body []byte) (line string, ok bool)
	// Serve serves a line until ctx ends, which it does when the line has ended; when it returns, the line ends.
	Serve func(ctx context.Context, body []byte, line *VoiceEnd)
}

// voiceServer is a worker's part for voice lines.
type voiceServer struct {
	board *voiceBoard[contract.VoiceCommand]
	cfg   VoiceServing

	mu      sync.Mutex
	leaving bool
	held    int                                          // places
	lines   map[string]*voiceWire[contract.VoiceCommand] // the newest of each name
	idle    chan struct{}                                // closed when it is leaving and no place is held
}

// ServeVoice takes voice lines, and shares them with all other workers that do. A line that is opened again here takes the
// place of the one that there was.
//
// stop takes no more lines, tells all of them that the worker is leaving, and waits for Serve to return until its context
// ends; then it cancels the rest.
func (b *Bus) ServeVoice(cfg VoiceServing) (stop func(ctx context.Context), err error) {
	s := &voiceServer{cfg: cfg, lines: map[string]*voiceWire[contract.VoiceCommand]{}, idle: make(chan struct{})}
	s.board = &voiceBoard[contract.VoiceCommand]{
		nc: b.nc, log: b.log, patience: voiceUnheardLooks,
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
		return nil, fmt.Errorf("subscribing to voice lines: %w", err)
	}
	_ = b.flush(work) // who is told that this worker is ready finds it; when the connection is away, once it is back
	return func(ctx context.Context) { s.stop(ctx, sub, cancel) }, nil
}

// receive takes a line, or turns it away. It runs in the subscription's one goroutine.
func (s *voiceServer) receive(work context.Context, m *nats.Msg) {
	line, ok := s.cfg.Admit(m.Header.Get(contract.HeaderCapability), m.Data)
	if !ok || m.Reply == "" {
		s.board.say(m.Reply, "", contract.StageRefused)
		return
	}
	ctx, cancel := context.WithCancel(work)
	wire := s.place(line, m.Reply, cancel)
	if wire == nil {
		cancel()
		s.board.say(m.Reply, "", contract.StageBusy)
		return
	}
	s.board.say(m.Reply, wire.own, contract.StageAccepted) // to nobody: the server says so, and the line ends
	go func() {
		defer s.leave(line, wire)
		s.cfg.Serve(ctx, m.Data, &VoiceEnd{wire})
	}()
}

// place gives a line a place, nil when there is none. What had the line before has lost it: there may be a place in a moment.
func (s *voiceServer) place(line, peer string, cancel context.CancelFunc) *voiceWire[contract.VoiceCommand] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return nil
	}
	if old := s.lines[line]; old != nil {
		s.board.end(old, voiceGone)
	}
	if s.held >= s.cfg.Places {
		return nil
	}
	wire := s.board.wire(peer, cancel)
	if wire == nil {
		return nil
	}
	s.held++
	s.lines[line] = wire
	return wire
}

// leave gives a line's place back once it was served.
func (s *voiceServer) leave(line string, wire *voiceWire[contract.VoiceCommand]) {
	s.board.end(wire, voiceStop)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.lines[line] == wire {
		delete(s.lines, line)
	}
	s.tellIdle()
}

// tellIdle is called under s's lock.
func (s *voiceServer) tellIdle() {
	if s.leaving && s.held == 0 {
		close(s.idle)
	}
}

// depart takes no more lines, and gives those that there are.
func (s *voiceServer) depart() []*VoiceEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return nil
	}
	s.leaving = true
	s.tellIdle()
	ends := make([]*VoiceEnd, 0, len(s.lines))
	for _, wire := range s.lines {
		ends = append(ends, &VoiceEnd{wire})
	}
	return ends
}

// stop ends the service. Openings that have arrived and were not looked at yet are turned away, to another worker.
func (s *voiceServer) stop(ctx context.Context, sub *nats.Subscription, cancel context.CancelFunc) {
	defer cancel()
	ends := s.depart()
	_ = sub.Drain() // fails only when the connection is closed
	for _, end := range ends {
		_ = end.Report(contract.VoiceReport{Type: contract.VoiceLeaving}) // without success it has ended already
	}
	select {
	case <-s.idle:
	case <-ctx.Done():
		cancel()
		grace := time.NewTimer(cancelWait)
		defer grace.Stop()
		select {
		case <-s.idle:
		case <-grace.C:
			s.board.log.Warn().Msg("voice sessions did not stop after they were cancelled")
		}
	}
	s.board.close()
	_ = s.board.nc.FlushTimeout(flushTimeout) // whoever does not hear of it finds silence
}

// VoiceEnd is a worker's end of a line; safe for concurrent use.
type VoiceEnd struct {
	wire *voiceWire[contract.VoiceCommand]
}

// Frames brings what the ingress sends, in order and without gaps, VoiceClose included; behind it, and when the line is lost, the
// channel is closed. It is lost when its reader lags, nothing was heard for 10 s, or the bus was away.
func (e *VoiceEnd) Frames() <-chan contract.VoiceFrame[contract.VoiceCommand] { return e.wire.frames }

// Report tells the ingress something. An error says that the line is lost, or that the report cannot be sent at all.
func (e *VoiceEnd) Report(report contract.VoiceReport) error {
	return e.wire.send(func(b []byte) ([]byte, error) { return contract.AppendVoiceControl(b, report) })
}

// Audio sends samples of an answer; it keeps nothing of them.
func (e *VoiceEnd) Audio(audio contract.VoiceAudio) error { return e.wire.audio(audio) }
