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
	// maximum number of messages, for all watched runs of a process, that wait for the callback; at
	// most 256 MiB
	watchBuffer = 8_192
	maxEvents   = 32 << 10 // maximum size of an events message in bytes

	droppedInterval = time.Second // how often a follower checks for messages that did not fit into its buffer
)

// Events publishes a run's events to its watchers without waiting. A message above 32 KiB is
// published without its lines, and watchers read them from the database.
func (b *Bus) Events(runID string, chunk domain.EventChunk) {
	b.publish(contract.SubjectEvents+runID, eventMessage(chunk))
}

// eventMessage encodes a chunk of events for publication, without the lines if they are too large.
func eventMessage(chunk domain.EventChunk) []byte {
	if len(chunk.Lines) > maxEvents {
		chunk.Lines = nil
	}
	return contract.EventMessage(chunk)
}

// RunMessage is a message about a watched run.
type RunMessage struct {
	RunID string
	// Events is the message with the run's newest events; see contract.ParseEventMessage. It is nil
	// if the run finished and its last event is not in the notice, or if messages may have been
	// missed. The run's log in the database is always complete.
	Events []byte
}

// Watch receives the messages of the runs that a process follows. If messages did not fit into its
// buffer or the connection was lost, it reports a RunMessage without events for each run concerned.
type Watch struct{ *follower }

// NewWatch returns a watch that receives nothing before Run.
func (b *Bus) NewWatch() *Watch { return &Watch{b.newFollower(watchBuffer, contract.RunSubject)} }

// Run calls f from one goroutine with all messages of followed runs until ctx ends.
// f must not block.
func (w *Watch) Run(ctx context.Context, f func(RunMessage)) {
	w.listen(ctx, func(m *nats.Msg) { handleMessage(m, f) }, func(runID string) { f(RunMessage{RunID: runID}) })
}

// handleMessage calls f with the run's events, or with a notice that the run finished, which may
// contain the run's last event. It ignores other messages.
func handleMessage(m *nats.Msg, f func(RunMessage)) {
	switch runID := contract.RunIDFor(m.Subject); {
	case strings.HasPrefix(m.Subject, contract.SubjectEvents), strings.HasPrefix(m.Subject, contract.SubjectDone) && len(m.Data) > 0:
		f(RunMessage{RunID: runID, Events: m.Data})
	case strings.HasPrefix(m.Subject, contract.SubjectDone):
		f(RunMessage{RunID: runID})
	}
}
