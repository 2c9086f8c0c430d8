package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
	"parley/shared/domain"
)

const (
	// Messages for all watched runs of a process that wait to be handed on: at most 256 MiB.
	watchBuffer = 8_192
	maxEvents   = 32 << 10 // bytes of a message of events

	droppedEvery = time.Second
)

// Events publishes a run's events to its watchers, without waiting. A chunk of more than 32 KiB is announced without its lines: watchers
// read it from the database.
func (b *Bus) Events(runID string, chunk domain.EventChunk) {
	body := contract.EventMessage(chunk)
	if len(body) > maxEvents {
		chunk.Lines = nil
		body = contract.EventMessage(chunk)
	}
	b.publish(contract.SubjectEvents+runID, body)
}

// Heard is something about a watched run.
type Heard struct {
	RunID string
	// Events is the message of the run's newest events, see contract.ParseEventMessage. When it is nil
	// something else happened, or may have been missed: the run's log in the database tells.
	Events []byte
}

// Watch is a process's ear for the runs that its streams follow: nothing is lost in silence. What did not fit its buffer, and
// whatever may have been published while the connection was away, is heard as a Heard without events.
type Watch struct{ *ear }

// NewWatch makes a watch that hears nothing before Run.
func (b *Bus) NewWatch() *Watch { return &Watch{b.newEar(watchBuffer, contract.RunSubject)} }

// Run calls f, from one goroutine, with all that is heard of watched runs until ctx ends; f must not block.
func (w *Watch) Run(ctx context.Context, f func(Heard)) {
	w.listen(ctx, func(m *nats.Msg) { hear(m, f) }, func(runID string) { f(Heard{RunID: runID}) })
}

func hear(m *nats.Msg, f func(Heard)) {
	switch runID := contract.RunIDFor(m.Subject); {
	case strings.HasPrefix(m.Subject, contract.SubjectEvents):
		f(Heard{RunID: runID, Events: m.Data})
	case strings.HasPrefix(m.Subject, contract.SubjectDone):
		f(Heard{RunID: runID})
	}
}
