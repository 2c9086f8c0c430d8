package voice

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/workers/internal/speech"
)

const (
	drainTime = 5 * time.Second  // time in which ingresses may move their sessions to other workers
	waitTime  = 15 * time.Minute // maximum time that a backend call waits for its turn
	callTime  = speech.CallTime  // maximum time that a backend call may run after it has waited for its turn
	endTime   = 2 * time.Second  // time in which backend calls must end after they are cancelled
)

// Bus delivers voice sessions.
type Bus interface {
	// ServeVoice accepts sessions. The returned function stop informs the sessions that the worker
	// is leaving. When the context of stop ends, stop cancels the remaining sessions.
	ServeVoice(cfg bus.VoiceOptions) (stop func(context.Context), err error)
}

// Verifier verifies that claims were signed together with a body, and returns the claims.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Config contains a voice server's settings. MaxSessions must be positive.
type Config struct {
	MaxSessions   int    // maximum number of simultaneous sessions
	Transcription string // name of the transcription model that clients see
}

// Deps are a voice server's dependencies. All except Prepare are required.
type Deps struct {
	Bus         Bus
	Transcriber speech.Transcriber
	Synthesizer speech.Synthesizer
	Prepare     func() // prepares the backends for calls that are expected soon; must return quickly; nil if there is nothing to prepare
	Verifier    Verifier
	Metrics     prometheus.Registerer
	Log         zerolog.Logger
}

// Server serves voice sessions. Create it with New and start it with Run. A process has at most one
// Server.
type Server struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	log     zerolog.Logger
}

// New creates a voice server and registers its metrics.
func New(cfg Config, deps Deps) (*Server, error) {
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, err
	}
	if deps.Prepare == nil {
		deps.Prepare = func() {}
	}
	return &Server{cfg: cfg, deps: deps, metrics: m, log: deps.Log}, nil
}

// Run serves sessions until ctx ends. It then asks the ingresses to move the sessions to other
// workers, and waits up to drainTime. It fails if it cannot subscribe to the bus.
func (s *Server) Run(ctx context.Context) error {
	stop, err := s.deps.Bus.ServeVoice(bus.VoiceOptions{
		Slots: s.cfg.MaxSessions, Transcription: s.cfg.Transcription, Admit: s.admit, Serve: s.serveEnd,
	})
	if err != nil {
		return fmt.Errorf("serving voice sessions: %w", err)
	}

	s.log.Info().Int("slots", s.cfg.MaxSessions).Msg("voice worker ready")
	<-ctx.Done()

	// ctx has already ended, but the sessions still need time to move.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// end is the worker's end of a session's connection. Its methods that send do not wait for the
// ingress.
type end interface {
	// Frames returns a channel that is closed when the session has ended or the connection is lost.
	Frames() <-chan frame
	Report(report contract.VoiceReport) error
	Audio(audio contract.VoiceAudio) error
}

// serveEnd calls serve with a connection of the bus. Tests call serve with their own connection.
func (s *Server) serveEnd(ctx context.Context, body []byte, wire *bus.WorkerVoiceSession) {
	s.serve(ctx, body, wire)
}

// serve serves a session until ctx ends or its frames end. A panic ends only this session, because
// the process also serves other sessions.
func (s *Server) serve(ctx context.Context, body []byte, wire end) {
	s.metrics.sessions.Inc()
	defer s.metrics.sessions.Dec()
	defer func() {
		if cause := recover(); cause != nil {
			// The value of the panic may quote speech, so only its type is logged.
			s.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("voice session panicked")
			_ = wire.Report(contract.VoiceReport{Type: contract.VoiceLeaving}) // if this fails, the ingress detects missing reports
		}
	}()
	var open contract.VoiceOpen
	if err := json.Unmarshal(body, &open); err != nil {
		s.log.Error().Err(err).Msg("cannot decode a voice session's message") // cannot happen, because admit has decoded the message before
		return
	}

	// Prepare the backends now, because speech usually begins soon after a session opens.
	s.deps.Prepare()
	newSession(s, wire, open).serve(ctx)
}
