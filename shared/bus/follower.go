package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// follower receives the messages about the ids that a process follows. All ids share one channel
// and one goroutine. It reports an id as missed if a message did not fit into the channel or the
// connection was lost.
type follower struct {
	bus       *Bus
	subject   func(id string) string
	messages  chan *nats.Msg
	subscribe func(subject string, messages chan *nats.Msg) (*nats.Subscription, error)

	mu       sync.Mutex
	followed map[string]*followed
}

// followed is the subscription to one id, guarded by the mutex of the follower.
type followed struct {
	sub     *nats.Subscription // nil while subscribing fails
	dropped int                // number of dropped messages at the last check
}

// newFollower returns a follower whose channel has room for buffer messages. The function subject
// returns the subject filter for an id.
func (b *Bus) newFollower(buffer int, subject func(id string) string) *follower {
	return &follower{
		bus: b, subject: subject, messages: make(chan *nats.Msg, buffer), subscribe: b.nc.ChanSubscribe, followed: map[string]*followed{},
	}
}

// Follow subscribes to the messages about an id. Further calls for the id have no effect until
// Unfollow. The server processes the subscription before messages that this process publishes
// later; Flush waits until the server has done so. A subscription that fails is retried by the next
// call for the id, and every second by Run.
func (e *follower) Follow(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()

	// The id is recorded even if the subscription fails, so that the method missed retries the
	// subscription.
	f := e.followed[id]
	if f == nil {
		f = &followed{}
		e.followed[id] = f
	}
	return e.ensure(id, f)
}

// ensure subscribes to an id unless the follower already has a subscription to it. The caller must
// hold e.mu.
func (e *follower) ensure(id string, f *followed) error {
	if f.sub != nil {
		return nil
	}
	sub, err := e.subscribe(e.subject(id), e.messages)
	if err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	f.sub = sub
	return nil
}

// Unfollow ends the subscription to an id, if any.
func (e *follower) Unfollow(id string) {
	// The lock protects only the map of subscriptions. Unsubscribing sends a message, so it happens
	// without the lock.
	e.mu.Lock()
	f := e.followed[id]
	delete(e.followed, id)
	e.mu.Unlock()
	if f != nil && f.sub != nil {
		_ = f.sub.Unsubscribe() // fails only if the connection is closed
	}
}

// Flush waits until the server has received all sent messages.
func (e *follower) Flush(ctx context.Context) error { return e.bus.flush(ctx) }

// Connected reports whether the process is connected.
func (e *follower) Connected() bool { return e.bus.nc.IsConnected() }

// listen calls handleMessage with every message about a followed id, and missed with each id whose
// messages may have been missed. listen makes these calls from one goroutine until ctx ends.
// Neither function may block.
func (e *follower) listen(ctx context.Context, handleMessage func(*nats.Msg), missed func(id string)) {
	// NATS does not report how many messages a disconnected client has missed. Each reconnection
	// therefore counts as a loss.
	connected := e.bus.nc.StatusChanged(nats.CONNECTED)
	defer e.bus.nc.RemoveStatusListener(connected)
	ticker := time.NewTicker(droppedInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-e.messages:
			handleMessage(m)
		case <-connected: // reconnected: subscriptions are restored, and messages in between are lost
			e.missed(missed, func(*followed) bool { return true })
		case <-ticker.C:
			e.missed(missed, (*followed).hasDropped)
		}
	}
}

// missed calls notify with each selected id whose messages may have been missed.
func (e *follower) missed(notify func(id string), selected func(*followed) bool) {
	// The function notify is called without the lock, because it may call Follow or Unfollow.
	var ids []string
	e.mu.Lock()
	for id, f := range e.followed {
		late := f.sub == nil && e.ensure(id, f) == nil // messages before this subscription are lost
		if late || f.sub != nil && selected(f) {
			ids = append(ids, id)
		}
	}
	e.mu.Unlock()
	for _, id := range ids {
		notify(id)
	}
}

// hasDropped reports whether, since the last call, a message for the id did not fit into the
// channel.
func (f *followed) hasDropped() bool {
	dropped, err := f.sub.Dropped()
	if err != nil || dropped == f.dropped {
		return false // Dropped fails only if the subscription or the connection is closed
	}
	f.dropped = dropped
	return true
}
