package voice

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/contract"
)

// fakeEnd is the worker's end of a session's connection, without a bus.
type fakeEnd struct {
	mu      sync.Mutex
	frames  chan frame
	reports []contract.VoiceReport
}

func (r *fakeEnd) Frames() <-chan frame { return r.frames }

func (r *fakeEnd) Report(report contract.VoiceReport) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, report)
	return nil
}

func (r *fakeEnd) Audio(contract.VoiceAudio) error { return nil }

// TestPanicsAreContained: a session that panics asks its ingress to move the session to another
// worker. Other sessions continue.
func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s, err := New(Config{MaxSessions: 1}, Deps{
		Metrics: prometheus.NewRegistry(), Log: zerolog.New(&log), Prepare: func() { panic("a secret") },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &fakeEnd{}
	s.serve(t.Context(), []byte(`{"line":"line_1"}`), r)
	if len(r.reports) != 1 || r.reports[0].Type != contract.VoiceLeaving {
		t.Errorf("%+v", r.reports)
	}
	if !strings.Contains(log.String(), "panicked") || strings.Contains(log.String(), "a secret") {
		t.Errorf("the log: %s", log.String())
	}
}

// TestFramesDecide: a session ends when no more frames can arrive, when it receives the command
// close, or when its context ends.
func TestFramesDecide(t *testing.T) {
	t.Parallel()
	s, err := New(Config{MaxSessions: 1}, Deps{Metrics: prometheus.NewRegistry(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	closing := make(chan frame, 2)
	closing <- frame{Control: &contract.VoiceCommand{Type: "of a later release"}}
	closing <- frame{Control: &contract.VoiceCommand{Type: contract.VoiceClose}}
	s.serve(t.Context(), []byte(`{}`), &fakeEnd{frames: closing})
	lost := make(chan frame)
	close(lost)
	s.serve(t.Context(), []byte(`{}`), &fakeEnd{frames: lost})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.serve(ctx, []byte(`{}`), &fakeEnd{})
	s.serve(t.Context(), []byte(`no JSON`), &fakeEnd{})
}
