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
	changePace   = 250 * time.Millisecond // minimum interval between two messages about the same change, per process
	maxChanges   = 1 << 16                // maximum number of tracked changes; further changes are published for all organizations
	changeBuffer = 4096                   // maximum number of messages that wait for the callback
)

// change is the content of a change message.
type change struct {
	kind domain.ChangeKind
	org  string
}

// changes publishes changes: the first one immediately, and further ones of the same kind
// within changePace coalesced into one at its end. Callers never wait. If a change of one
// organization cannot be published - publishing failed, there were too many, the connection was
// lost - a change of all organizations is published instead, until that succeeds:
//
//	ring ─► due ─► published, quiet ─┬─ no ring within changePace ─► forgotten
//	                     ▲           └─ rung again ─► published after changePace ─┐
//	                     └────────────────────────────────────────────────────────┘
type changes struct {
	publish func(subject string) error
	limit   int
	wake    chan struct{}

	mu    sync.Mutex
	pairs map[change]bool // due, or published within the last changePace; true: due
	fresh []change        // due immediately

	told []toldChange // published changes, oldest first; used only by run
}

type toldChange struct {
	change
	at time.Time
}

func newChanges(publish func(subject string) error) *changes {
	return &changes{publish: publish, limit: maxChanges, wake: make(chan struct{}, 1), pairs: map[change]bool{}}
}

// Changed notifies the watchers of an organization that resources of a kind have changed and
// must be read again. It does not say which ones. Many calls are coalesced into one message.
// It does not wait.
func (b *Bus) Changed(kind domain.ChangeKind, org string) { b.changes.ring(change{kind, org}) }

func (c *changes) ring(of change) {
	c.mu.Lock()
	due, known := c.pairs[of]
	if due {
		c.mu.Unlock()
		return
	}
	if !known && len(c.pairs) >= c.limit {
		of.org = contract.AllOrganizations
		_, known = c.pairs[of]
	}
	c.pairs[of] = true
	if !known {
		c.fresh = append(c.fresh, of)
	}
	c.mu.Unlock()
	if known {
		return // published when the pace is over
	}
	select {
	case c.wake <- struct{}{}:
	default: // run is about to look anyway
	}
}

// ringAll publishes a change of every kind for all organizations.
func (c *changes) ringAll() {
	for _, kind := range domain.ChangeKinds {
		c.ring(change{kind, contract.AllOrganizations})
	}
}

// run publishes changes until stopped is closed. After a reconnection it publishes changes for
// all organizations, because recent messages may be lost.
func (c *changes) run(stopped <-chan struct{}, connected <-chan nats.Status) {
	timer := time.NewTimer(changePace)
	defer timer.Stop()
	for {
		c.tell(c.due(time.Now()))
		if len(c.told) > 0 {
			timer.Reset(time.Until(c.told[0].at.Add(changePace)))
		}
		select {
		case <-stopped:
			return
		case <-c.wake:
		case <-timer.C:
		case <-connected:
			c.ringAll()
		}
	}
}

// due removes and returns the changes to publish now, and forgets those that were
// quiet for changePace.
func (c *changes) due(now time.Time) []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.fresh
	c.fresh = nil
	for len(c.told) > 0 && !now.Before(c.told[0].at.Add(changePace)) {
		of := c.told[0].change
		c.told = c.told[1:]
		if c.pairs[of] {
			due = append(due, of)
			continue
		}
		delete(c.pairs, of)
	}
	for _, of := range due {
		c.pairs[of] = false // before it is published, so that a later ring counts as new
	}
	return due
}

func (c *changes) tell(due []change) {
	for _, of := range due {
		if c.publish(contract.ChangeSubject(of.kind, of.org)) != nil {
			c.ring(change{of.kind, contract.AllOrganizations})
		}
	}
	now := time.Now()
	for _, of := range due {
		c.told = append(c.told, toldChange{of, now})
	}
}

// rest publishes the remaining changes after run has returned.
func (c *changes) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, due := range c.pairs {
		if due {
			_ = c.publish(contract.ChangeSubject(of.kind, of.org)) // the process ends, so there is no retry
		}
	}
}

// startChanges starts publishing changes. stop ends it and publishes the remaining ones.
func (b *Bus) startChanges() (stop func()) {
	b.changes = newChanges(func(subject string) error { return b.nc.Publish(subject, nil) })
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

// Change is a received change of an organization's resources of a kind. An empty organization
// means all organizations, and an empty kind means all kinds; then messages may have been missed.
type Change struct {
	OrganizationID string
	Kind           domain.ChangeKind
}

// ChangeWatch receives the changes of the organizations that a process follows. It reports
// possibly missed messages.
type ChangeWatch struct{ *ear }

// NewChangeWatch returns a watch that receives nothing before Run.
func (b *Bus) NewChangeWatch() *ChangeWatch {
	return &ChangeWatch{b.newEar(changeBuffer, contract.ChangesSubject)}
}

// Run calls f from one goroutine with all changes of followed organizations until ctx ends.
// f must not block.
func (w *ChangeWatch) Run(ctx context.Context, f func(Change)) {
	_ = w.Follow(contract.AllOrganizations) // listen retries it
	w.listen(ctx, func(m *nats.Msg) { hearChange(m, f) }, func(org string) { f(Change{OrganizationID: named(org)}) })
}

func hearChange(m *nats.Msg, f func(Change)) {
	if kind, org, ok := contract.ParseChange(m.Subject); ok {
		f(Change{OrganizationID: named(org), Kind: kind})
	}
}

// named returns an organization's id, or "" for all organizations.
func named(org string) string {
	if org == contract.AllOrganizations {
		return ""
	}
	return org
}
