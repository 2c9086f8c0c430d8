package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"parley/shared/contract"
	"parley/shared/domain"
)

const (
	changeInterval = 250 * time.Millisecond // minimum interval between two messages about the same change, per process
	maxChanges     = 1 << 16                // maximum number of tracked changes; further changes are published for all organizations
	changeBuffer   = 4096                   // maximum number of messages that wait for the callback
)

// change is the content of a change message.
type change struct {
	kind domain.ChangeKind // what kind of resource has changed
	org  string            // the organization whose resources changed; contract.AllOrganizations: unknown
}

// changes publishes change messages. The first change is published immediately. Further changes of
// the same kind within changeInterval are coalesced into one change, which is published at the end
// of the interval. Callers never wait. If publishing fails, too many changes are tracked, or the
// connection was lost, a change for all organizations is published instead. The publication is
// repeated until it succeeds:
//
//	markDue ─► due ─► published, quiet ─┬─ not due within changeInterval ─► forgotten
//	                        ▲           └─ due again ─► published after changeInterval ─┐
//	                        └───────────────────────────────────────────────────────────┘
type changes struct {
	// The function publish must not block. The field limit is the maximum size of the map tracked.
	// The channel wake has a buffer of one, so that markDue never waits.
	publish func(subject string) error
	limit   int
	wake    chan struct{}

	mu      sync.Mutex
	tracked map[change]bool // true: due; false: published within the last changeInterval
	dueNow  []change        // due immediately

	published []publishedChange // published changes, oldest first; used only by the method run
}

// publishedChange is a change and the time of its publication. The change is not published again
// before changeInterval has passed since that time.
type publishedChange struct {
	change
	at time.Time
}

// newChanges returns a value of type changes. This value publishes only while its method
// run is executing.
func newChanges(publish func(subject string) error) *changes {
	return &changes{publish: publish, limit: maxChanges, wake: make(chan struct{}, 1), tracked: map[change]bool{}}
}

// Changed notifies the watchers of an organization that resources of a kind have changed and must
// be read again. It does not say which resources. Calls in quick succession are coalesced into one
// message. Changed does not wait.
func (b *Bus) Changed(kind domain.ChangeKind, org string) { b.changes.markDue(change{kind, org}) }

// markDue marks a change as due and wakes the method run. It does not wait. If too many changes are
// tracked, it marks the change for all organizations instead.
func (c *changes) markDue(of change) {
	c.mu.Lock()
	due, known := c.tracked[of]
	if due {
		c.mu.Unlock()
		return
	}

	// Entries for all organizations may exceed the limit. There are only as many of them as kinds
	// of changes.
	if !known && len(c.tracked) >= c.limit {
		of.org = contract.AllOrganizations
		_, known = c.tracked[of]
	}

	// A change that was published recently becomes due when its interval ends. Any other change is
	// published immediately.
	c.tracked[of] = true
	if !known {
		c.dueNow = append(c.dueNow, of)
	}

	c.mu.Unlock()
	if known {
		return // the method run publishes the change when changeInterval has passed
	}

	select {
	case c.wake <- struct{}{}:
	default: // wake already has a value, so the method run will check the due changes
	}
}

// markAllDue marks a change of every kind for all organizations as due.
func (c *changes) markAllDue() {
	// A change for all organizations makes every watcher read its resources again, which costs many
	// queries. It is therefore sent only if messages may have been lost.
	for _, kind := range domain.ChangeKinds {
		c.markDue(change{kind, contract.AllOrganizations})
	}
}

// run publishes changes until stopped is closed. After a reconnection it publishes changes for
// all organizations, because recent messages may be lost.
func (c *changes) run(stopped <-chan struct{}, connected <-chan nats.Status) {
	timer := time.NewTimer(changeInterval)
	defer timer.Stop()
	for {
		c.publishAll(c.due(time.Now()))
		if len(c.published) > 0 {
			timer.Reset(time.Until(c.published[0].at.Add(changeInterval)))
		}
		select {
		case <-stopped:
			return
		case <-c.wake:
		case <-timer.C:
		case <-connected:
			c.markAllDue()
		}
	}
}

// due removes and returns the changes to publish now. It also forgets the changes that were quiet
// for changeInterval.
func (c *changes) due(now time.Time) []change {
	c.mu.Lock()
	defer c.mu.Unlock()

	// The list published is ordered by time, so the loop stops at the first change whose interval
	// has not passed.
	due := c.dueNow
	c.dueNow = nil
	for len(c.published) > 0 && !now.Before(c.published[0].at.Add(changeInterval)) {
		of := c.published[0].change
		c.published = c.published[1:]
		if c.tracked[of] {
			due = append(due, of)
			continue
		}
		delete(c.tracked, of)
	}

	for _, of := range due {
		c.tracked[of] = false // cleared before the publication, so that a change during the publication is published again
	}

	return due
}

// publishAll publishes the changes. If a change cannot be published, its kind becomes due for all
// organizations.
func (c *changes) publishAll(due []change) {
	for _, of := range due {
		if c.publish(contract.ChangeSubject(of.kind, of.org)) != nil {
			c.markDue(change{of.kind, contract.AllOrganizations})
		}
	}

	// Changes that could not be published are also recorded as published, so that a retry waits
	// until changeInterval has passed.
	now := time.Now()
	for _, of := range due {
		c.published = append(c.published, publishedChange{of, now})
	}
}

// rest publishes the changes that are still due after the method run has returned.
func (c *changes) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, due := range c.tracked {
		if due {
			_ = c.publish(contract.ChangeSubject(of.kind, of.org)) // the process ends, so there is no retry
		}
	}
}

// startChanges starts the publication of changes. The function stop ends it and publishes the
// remaining changes; it waits at most flushTimeout. Further calls of stop do nothing.
func (b *Bus) startChanges() (stop func()) {
	b.changes = newChanges(func(subject string) error { return b.nc.Publish(subject, nil) })

	// The method run publishes from one goroutine, so the messages of a process keep their order.
	stopped, ended := make(chan struct{}), make(chan struct{})
	connected := b.nc.StatusChanged(nats.CONNECTED)
	go func() {
		defer close(ended)
		b.changes.run(stopped, connected)
	}()
	return sync.OnceFunc(func() {
		close(stopped)
		select {
		case <-ended:
			b.changes.rest()
		case <-time.After(flushTimeout): // the connection is blocked
		}
		b.nc.RemoveStatusListener(connected)
	})
}

// Change reports that resources of one kind have changed in an organization. An empty organization
// means all organizations. An empty kind means all kinds. In both cases messages may have been
// missed.
type Change struct {
	OrganizationID string
	Kind           domain.ChangeKind
}

// ChangeWatch receives the changes of the organizations that a process follows. If messages may
// have been missed, it reports a Change with an empty field.
type ChangeWatch struct{ *follower }

// NewChangeWatch returns a watch that receives nothing before Run.
func (b *Bus) NewChangeWatch() *ChangeWatch {
	return &ChangeWatch{b.newFollower(changeBuffer, contract.ChangesSubject)}
}

// Run calls f from one goroutine with all changes of followed organizations until ctx ends.
// f must not block.
func (w *ChangeWatch) Run(ctx context.Context, f func(Change)) {
	// Messages for all organizations have their own subject, which every process follows.
	_ = w.Follow(contract.AllOrganizations) // listen retries it
	w.listen(ctx, func(m *nats.Msg) { handleChange(m, f) }, func(org string) { f(Change{OrganizationID: named(org)}) })
}

// handleChange calls f with the change in a message. It ignores messages with other subjects.
func handleChange(m *nats.Msg, f func(Change)) {
	if kind, org, ok := contract.ParseChange(m.Subject); ok {
		f(Change{OrganizationID: named(org), Kind: kind})
	}
}

// named returns the organization in a change's subject: its id, or "" for all organizations.
func named(org string) string {
	if org == contract.AllOrganizations {
		return ""
	}
	return org
}
