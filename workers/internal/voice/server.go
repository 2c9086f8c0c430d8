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
	drainTime = 5 * time.Second  // for ingresses to take their lines elsewhere
	waitTime  = 15 * time.Minute // that a backend's call may wait for its turn
	callTime  = speech.CallTime  // and may take then
	endTime   = 2 * time.Second  // for backends' calls to end once they are cancelled
)

// Bus is where lines come from.
type Bus interface {
	ServeVoice(cfg bus.VoiceServing) (stop func(context.Context), err error)
}

// Verifier tells whether claims hold for a body, and what they are.
type Verifier interface {
	Verify(token string, body []byte) (claims []byte, err error)
}

// Config are a voice server's settings.
type Config struct {
	Places int // lines at a time
}

// Deps are what a voice server works with.
type Deps struct {
	Bus         Bus
	Transcriber speech.Transcriber
	Synthesizer speech.Synthesizer
	Prepare     func() // tells the backends that they are needed soon; it must be quick; nil: nobody wants to know
	Verifier    Verifier
	Metrics     prometheus.Registerer
	Log         zerolog.Logger
}

// Server serves lines. Make it with New and start it with Run.
type Server struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	log     zerolog.Logger
}

// New makes a voice server.
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

// Run serves lines until ctx ends; then it tells their ingresses to take them elsewhere, and waits a while for that.
func (s *Server) Run(ctx context.Context) error {
	stop, err := s.deps.Bus.ServeVoice(bus.VoiceServing{Places: s.cfg.Places, Admit: s.admit, Serve: s.serveEnd})
	if err != nil {
		return fmt.Errorf("serving voice lines: %w", err)
	}
	s.log.Info().Int("places", s.cfg.Places).Msg("voice worker ready")
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	stop(drain)
	return nil
}

// end is this end of a line.
type end interface {
	Frames() <-chan frame
	Report(report contract.VoiceReport) error
	Audio(audio contract.VoiceAudio) error
}

func (s *Server) serveEnd(ctx context.Context, body []byte, wire *bus.VoiceEnd) {
	s.serve(ctx, body, wire)
}

// serve serves a line until ctx or its frames end. A panic ends this one alone: others are in the same process.
func (s *Server) serve(ctx context.Context, body []byte, wire end) {
	s.metrics.lines.Inc()
	defer s.metrics.lines.Dec()
	defer func() {
		if cause := recover(); cause != nil {
			// The cause may quote what was said; the stack says where.
			s.log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg("voice session panicked")
			_ = wire.Report(contract.VoiceReport{Type: contract.VoiceLeaving}) // silence says it, too
		}
	}()
	var open contract.VoiceOpen
	if err := json.Unmarshal(body, &open); err != nil {
		s.log.Error().Err(err).Msg("cannot decode a voice session's message") // it was, when it was admitted
		return
	}
	s.deps.Prepare()
	newLine(s, wire, open).serve(ctx)
}
