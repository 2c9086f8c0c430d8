package changes

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/domain"
)

// Bus delivers the changes of organizations. A second call of Follow for the same organization
// retries a failed subscription. One call of Unfollow ends the subscription, however often Follow
// was called. Package bus implements it over NATS.
type Bus interface {
	// Follow subscribes to the changes of an organization.
	Follow(org string) error
	// Unfollow ends the subscription.
	Unfollow(org string)
	// Flush waits until the server has received all subscriptions.
	Flush(ctx context.Context) error
	// Connected reports whether the connection exists.
	Connected() bool
	// Run calls f for each change until ctx ends.
	Run(ctx context.Context, f func(bus.Change))
}

// Hub delivers changes to watchers. It is safe for concurrent use while Run runs. A process uses a
// single hub.
type Hub struct {
	bus Bus
	log zerolog.Logger
	// Closed when the hub drains.
	drained chan struct{}
	// Closes drained, once.
	drain func()

	mu       sync.Mutex
	watchers map[string]map[*Watcher]struct{} // watchers by organization
}

// New returns a hub. It receives changes while Run runs. Watchers may be created before Run is
// called.
func New(b Bus, log zerolog.Logger) *Hub {
	h := &Hub{bus: b, log: log, drained: make(chan struct{}), watchers: map[string]map[*Watcher]struct{}{}}
	h.drain = sync.OnceFunc(func() { close(h.drained) })
	return h
}

// Run receives changes until ctx ends. It always returns nil.
func (h *Hub) Run(ctx context.Context) error {
	h.bus.Run(ctx, h.receive)
	return nil
}

// Drain ends all watchers, including those that Watch returns later. It is called when the process
// stops, so that clients reconnect to another process.
func (h *Hub) Drain() { h.drain() }

// Watch returns a watcher of an organization. The watcher reports every change made after Watch
// returns. The caller must close it. Watch blocks until the subscription is confirmed or ctx ends.
// A subscription that fails is repeated by the watcher.
func (h *Hub) Watch(ctx context.Context, org string) *Watcher {
	// The subscription must be confirmed before Watch returns. Otherwise the caller could miss a
	// change that follows its first read.
	w := &Watcher{hub: h, org: org, wake: make(chan struct{}, 1)}
	h.enter(w)
	w.flush(ctx)
	return w
}

// enter registers a watcher and subscribes to its organization. It calls Follow for each watcher,
// because a further call of Follow retries a failed subscription.
func (h *Hub) enter(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[w.org] == nil {
		h.watchers[w.org] = map[*Watcher]struct{}{}
	}
	h.watchers[w.org][w] = struct{}{}
	if err := h.bus.Follow(w.org); err != nil {
		h.log.Debug().Err(err).Str("org_id", w.org).Msg("cannot subscribe to change notifications yet, retrying")
	}
}

// leave removes a watcher. If it was the last watcher of its organization, leave ends the
// subscription. leave does nothing if the watcher was removed before.
func (h *Hub) leave(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	others := h.watchers[w.org]
	if _, in := others[w]; !in {
		return
	}
	delete(others, w)
	if len(others) == 0 {
		delete(h.watchers, w.org)
		h.bus.Unfollow(w.org)
	}
}

// receive handles a change from the bus. Only one goroutine calls it. A change without an
// organization concerns all organizations, and a change without a kind concerns all kinds. The bus
// sends such a change when it may have lost others.
func (h *Hub) receive(c bus.Change) {
	marks := all
	if c.Kind != "" {
		marks = markFor(c.Kind)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.OrganizationID != "" {
		markEach(h.watchers[c.OrganizationID], marks)
		return
	}
	for _, watchers := range h.watchers {
		markEach(watchers, marks)
	}
}

// markEach sets the marks on every given watcher. It does not block. The caller must hold the lock
// of the hub.
func markEach(watchers map[*Watcher]struct{}, marks uint32) {
	for w := range watchers {
		w.mark(marks)
	}
}

// all is the set of the marks of all kinds. A mark is a bit of a word, so that it can be set
// without a lock.
const all uint32 = 1<<kinds - 1

// kinds is the number of kinds of changes. It is the length of domain.ChangeKinds, which is not a
// constant.
const kinds = 3

// markFor returns the mark of a kind, or 0 for a kind that this release does not know. A mark has
// one bit, whose number is the position of the kind in domain.ChangeKinds.
func markFor(kind domain.ChangeKind) uint32 {
	for n, known := range domain.ChangeKinds {
		if known == kind {
			return 1 << n
		}
	}
	return 0
}
