package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
	"parley/shared/domain"
)

const (
	watchBuffer  = 16_384 // messages for all watched runs of a process that wait to be handed on
	droppedEvery = time.Second
)

// Events publishes a run's events to whoever watches it, without waiting. A chunk that does not fit a message
// is announced only: its watchers read it from the database.
func (b *Bus) Events(runID string, chunk domain.EventChunk) {
	body := contract.EventMessage(chunk)
	if int64(len(body)) > b.nc.MaxPayload() {
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

// Watch is a process's ear for the runs that its streams follow. They share one channel, and none of them
// costs a goroutine. Nothing is lost in silence: what did not fit the channel, and whatever may have been
// published while the connection was away, is heard as a Heard without events.
type Watch struct {
	bus       *Bus
	messages  chan *nats.Msg
	subscribe func(subject string, messages chan *nats.Msg) (*nats.Subscription, error)

	mu   sync.Mutex
	runs map[string]*watchedRun
}

type watchedRun struct {
	sub     *nats.Subscription // nil while subscribing fails
	dropped int
}

// NewWatch makes a watch that hears nothing before Run.
func (b *Bus) NewWatch() *Watch {
	return &Watch{
		bus: b, messages: make(chan *nats.Msg, watchBuffer), subscribe: b.nc.ChanSubscribe, runs: map[string]*watchedRun{},
	}
}

// Follow subscribes to a run, once until Unfollow. The server has the subscription before whatever this
// process publishes afterwards; Flush waits until it has it. When it fails, the next Follow of the run, Run and a
// reconnection try again.
func (w *Watch) Follow(runID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.runs[runID]
	if run == nil {
		run = &watchedRun{}
		w.runs[runID] = run
	}
	return w.ensure(runID, run)
}

// ensure subscribes to a run that no subscription is for. It is called under w's lock.
func (w *Watch) ensure(runID string, run *watchedRun) error {
	if run.sub != nil {
		return nil
	}
	sub, err := w.subscribe(contract.RunSubject(runID), w.messages)
	if err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	run.sub = sub
	return nil
}

// Unfollow ends the subscription to a run, if there is one.
func (w *Watch) Unfollow(runID string) {
	w.mu.Lock()
	run := w.runs[runID]
	delete(w.runs, runID)
	w.mu.Unlock()
	if run != nil && run.sub != nil {
		_ = run.sub.Unsubscribe() // fails only when the connection is closed
	}
}

// Flush waits until the server has what was sent to it.
func (w *Watch) Flush(ctx context.Context) error { return w.bus.flush(ctx) }

// Connected reports whether anything can be heard now.
func (w *Watch) Connected() bool { return w.bus.nc.IsConnected() }

// Run calls f, from one goroutine, with all that is heard of watched runs until ctx ends; f must not block.
func (w *Watch) Run(ctx context.Context, f func(Heard)) {
	connected := w.bus.nc.StatusChanged(nats.CONNECTED)
	defer w.bus.nc.RemoveStatusListener(connected)
	ticker := time.NewTicker(droppedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-w.messages:
			hear(m, f)
		case <-connected: // again: subscriptions are restored by now, and what came before is gone
			w.missed(f, func(*watchedRun) bool { return true })
		case <-ticker.C:
			w.missed(f, (*watchedRun).hasDropped)
		}
	}
}

func hear(m *nats.Msg, f func(Heard)) {
	switch runID := contract.RunIDOf(m.Subject); {
	case strings.HasPrefix(m.Subject, contract.SubjectEvents):
		f(Heard{RunID: runID, Events: m.Data})
	case strings.HasPrefix(m.Subject, contract.SubjectDone):
		f(Heard{RunID: runID})
	}
}

// missed tells of runs about which something may have been missed.
func (w *Watch) missed(f func(Heard), what func(*watchedRun) bool) {
	var ids []string
	w.mu.Lock()
	for id, run := range w.runs {
		late := run.sub == nil && w.ensure(id, run) == nil // and what came before it was not heard
		if late || run.sub != nil && what(run) {
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		f(Heard{RunID: id})
	}
}

// hasDropped reports whether messages of the run did not fit the channel since it was last asked.
func (r *watchedRun) hasDropped() bool {
	dropped, err := r.sub.Dropped()
	if err != nil || dropped == r.dropped {
		return false // an error says that the subscription or the connection is closed
	}
	r.dropped = dropped
	return true
}
