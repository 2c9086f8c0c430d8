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
	changePace   = 250 * time.Millisecond // between two messages about the same, from one process
	maxChanges   = 1 << 16                // that are kept apart; what changes beside them is told to everybody
	changeBuffer = 4096                   // messages for a process's watched organizations that wait to be handed on
)

// change is what a message tells of.
type change struct {
	kind domain.ChangeKind
	org  string
}

// changes tells of changes: the first one at once, those that follow within a pace together at its end. Whoever rings
// never waits, whatever the connection does. What cannot be told any more of one organization - it did not get out, there
// were too many, the connection was away - is told to all, until that gets out:
//
//	ring ─► due ─► told, quiet ─┬─ a pace without a ring ─► forgotten
//	                  ▲         └─ rung again ─► told at the pace's end ─┐
//	                  └──────────────────────────────────────────────────┘
type changes struct {
	publish func(subject string) error
	limit   int
	wake    chan struct{}

	mu    sync.Mutex
	pairs map[change]bool // those that are due, or told within the last pace; true: there is something to tell
	fresh []change        // those that are due at once

	told []toldChange // the oldest first; the loop's own
}

type toldChange struct {
	change
	at time.Time
}

func newChanges(publish func(subject string) error) *changes {
	return &changes{publish: publish, limit: maxChanges, wake: make(chan struct{}, 1), pairs: map[change]bool{}}
}

// Changed tells those who watch an organization that its things of a kind have changed: that they are to be read again, not
// which. Many calls become one message. It waits for nothing.
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
		return // it is told when its pace is over
	}
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// ringAll tells everybody of everything.
func (c *changes) ringAll() {
	for _, kind := range domain.ChangeKinds {
		c.ring(change{kind, contract.AllOrganizations})
	}
}

// run tells until stopped is closed. After a connection was made again it tells everybody: what had just been told may be lost.
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

// due takes what is to be told now, and forgets what has been quiet for a pace.
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
		c.pairs[of] = false // before it is told: what is rung from now on is news
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

// rest tells what is left, once run has returned.
func (c *changes) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, due := range c.pairs {
		if due {
			_ = c.publish(contract.ChangeSubject(of.kind, of.org)) // the process ends: there is no later
		}
	}
}

// startChanges lets changes be told until the returned function is called, which tells what is left.
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
		case <-time.After(flushTimeout): // the connection takes nothing
		}
		b.nc.RemoveStatusListener(connected)
	})
}

// Change is what is heard of changes: in an organization, of a kind. An empty organization stands for every one, an empty
// kind for every kind: then something may have been missed.
type Change struct {
	OrganizationID string
	Kind           domain.ChangeKind
}

// ChangeWatch is a process's ear for the organizations that somebody watches: nothing is lost in silence.
type ChangeWatch struct{ *ear }

// NewChangeWatch makes a watch that hears nothing before Run.
func (b *Bus) NewChangeWatch() *ChangeWatch {
	return &ChangeWatch{b.newEar(changeBuffer, contract.ChangesSubject)}
}

// Run calls f, from one goroutine, with all that is heard of watched organizations until ctx ends; f must not block.
func (w *ChangeWatch) Run(ctx context.Context, f func(Change)) {
	_ = w.Follow(contract.AllOrganizations) // listening tries again
	w.listen(ctx, func(m *nats.Msg) { hearChange(m, f) }, func(org string) { f(Change{OrganizationID: named(org)}) })
}

func hearChange(m *nats.Msg, f func(Change)) {
	if kind, org, ok := contract.ParseChange(m.Subject); ok {
		f(Change{OrganizationID: named(org), Kind: kind})
	}
}

// named is an organization's id, or nothing where all are meant.
func named(org string) string {
	if org == contract.AllOrganizations {
		return ""
	}
	return org
}
