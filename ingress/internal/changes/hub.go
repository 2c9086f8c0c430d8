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
// was called.
type Bus interface {
	Follow(org string) error
	Unfollow(org string)
	Flush(ctx context.Context) error
	Connected() bool
	Run(ctx context.Context, f func(bus.Change))
}

// Hub delivers changes to watchers. It is safe for concurrent use while Run runs.
type Hub struct {
	bus     Bus
	log     zerolog.Logger
	drained chan struct{}
	drain   func()

	mu       sync.Mutex
	watchers map[string]map[*Watcher]struct{} // watchers by organization
}

// New returns a hub. It receives changes while Run runs.
func New(b Bus, log zerolog.Logger) *Hub {
	h := &Hub{bus: b, log: log, drained: make(chan struct{}), watchers: map[string]map[*Watcher]struct{}{}}
	h.drain = sync.OnceFunc(func() { close(h.drained) })
	return h
}

// Run receives changes until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	h.bus.Run(ctx, h.receive)
	return nil
}

// Drain ends all watchers, including those that Watch returns later.
func (h *Hub) Drain() { h.drain() }

// Watch returns a watcher of an organization. The watcher reports every change made after Watch
// returns. The caller must close it.
func (h *Hub) Watch(ctx context.Context, org string) *Watcher {
	// The subscription must be confirmed before Watch returns. Otherwise the caller could miss a
	// change that follows its first read.
	w := &Watcher{hub: h, org: org, wake: make(chan struct{}, 1)}
	h.enter(w)
	w.flush(ctx)
	return w
}

// enter registers a watcher and subscribes to its organization.
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
// subscription.
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

// receive handles a change from the bus. Only one goroutine calls it.
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

// markEach sets the marks on every given watcher.
func markEach(watchers map[*Watcher]struct{}, marks uint32) {
	for w := range watchers {
		w.mark(marks)
	}
}

// all is the set of the marks of all kinds.
const all uint32 = 1<<kinds - 1

// kinds is the number of kinds of changes.
const kinds = 3

// markFor returns the mark of a kind, or 0 for a kind that this release does not know.
func markFor(kind domain.ChangeKind) uint32 {
	for n, known := range domain.ChangeKinds {
		if known == kind {
			return 1 << n
		}
	}
	return 0
}
