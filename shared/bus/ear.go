package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ear hears what is published about things that a process follows, by their ids. They share one channel, and none of
// them costs a goroutine. Nothing is lost in silence: of what did not fit the channel, and of whatever may have been
// published while the connection was away, it is said that something was missed.
type ear struct {
	bus       *Bus
	subject   func(id string) string
	messages  chan *nats.Msg
	subscribe func(subject string, messages chan *nats.Msg) (*nats.Subscription, error)

	mu       sync.Mutex
	followed map[string]*followed
}

type followed struct {
	sub     *nats.Subscription // nil while subscribing fails
	dropped int
}

func (b *Bus) newEar(buffer int, subject func(id string) string) *ear {
	return &ear{
		bus: b, subject: subject, messages: make(chan *nats.Msg, buffer), subscribe: b.nc.ChanSubscribe, followed: map[string]*followed{},
	}
}

// Follow subscribes to what is published about an id, once until Unfollow. The server has the subscription before whatever
// this process publishes afterwards; Flush waits until it has it. When it fails, the next Follow of the id, Run and a
// reconnection try again.
func (e *ear) Follow(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.followed[id]
	if f == nil {
		f = &followed{}
		e.followed[id] = f
	}
	return e.ensure(id, f)
}

// ensure subscribes to an id that no subscription is for. It is called under e's lock.
func (e *ear) ensure(id string, f *followed) error {
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

// Unfollow ends the subscription to an id, if there is one.
func (e *ear) Unfollow(id string) {
	e.mu.Lock()
	f := e.followed[id]
	delete(e.followed, id)
	e.mu.Unlock()
	if f != nil && f.sub != nil {
		_ = f.sub.Unsubscribe() // fails only when the connection is closed
	}
}

// Flush waits until the server has what was sent to it.
func (e *ear) Flush(ctx context.Context) error { return e.bus.flush(ctx) }

// Connected reports whether anything can be heard now.
func (e *ear) Connected() bool { return e.bus.nc.IsConnected() }

// listen calls, from one goroutine, hear with all messages about what is followed, and missed with the ids about which one
// may have been missed, until ctx ends; neither may block.
func (e *ear) listen(ctx context.Context, hear func(*nats.Msg), missed func(id string)) {
	connected := e.bus.nc.StatusChanged(nats.CONNECTED)
	defer e.bus.nc.RemoveStatusListener(connected)
	ticker := time.NewTicker(droppedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-e.messages:
			hear(m)
		case <-connected: // again: subscriptions are restored by now, and what came before is gone
			e.missed(missed, func(*followed) bool { return true })
		case <-ticker.C:
			e.missed(missed, (*followed).hasDropped)
		}
	}
}

// missed tells of the ids about which something may have been missed.
func (e *ear) missed(tell func(id string), what func(*followed) bool) {
	var ids []string
	e.mu.Lock()
	for id, f := range e.followed {
		late := f.sub == nil && e.ensure(id, f) == nil // and what came before it was not heard
		if late || f.sub != nil && what(f) {
			ids = append(ids, id)
		}
	}
	e.mu.Unlock()
	for _, id := range ids {
		tell(id)
	}
}

// hasDropped reports whether messages did not fit the channel since it was last asked.
func (f *followed) hasDropped() bool {
	dropped, err := f.sub.Dropped()
	if err != nil || dropped == f.dropped {
		return false // an error says that the subscription or the connection is closed
	}
	f.dropped = dropped
	return true
}
