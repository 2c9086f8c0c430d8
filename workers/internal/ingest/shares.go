package ingest

import (
	"slices"
	"sync"
	"time"
)

const (
	// repaid is how much of its debt an organization pays back in a second.
	repaid = 250 * time.Millisecond
	// maxDebt bounds what an organization owes, and so how long others come before it: four minutes.
	maxDebt = time.Minute
	// quickDebt is how much an organization may owe and still get the last slot.
	quickDebt = 3 * time.Second
	// shortDebt is how much an organization may owe and still get the short lane: about a hundred short documents sent at once.
	shortDebt = 10 * time.Second
	// leftDebt is owed besides for a document that had to leave the last slot or the short lane: it is read again.
	leftDebt = 6 * time.Second
)

// shares decides whose documents this worker reads. It shares processor time, not the number of documents: an organization owes the time
// that its documents have taken lately, and a slot goes to an organization that owes less than others. Of the slots, an organization
// holds all but one at most, and the last free one is kept for organizations that have no document in hand and owe little. Beside the
// slots is the short lane: a few more for short documents of organizations that owe little, of which one holds all but one at most, too.
//
// Debts are those of this worker. What other workers read is not known here: each of them gives its slots in the same way, so an
// organization that floods several workers owes something to each.
type shares struct {
	slots int
	short int // slots of the short lane
	now   func() time.Time

	mu    sync.Mutex
	taken int // slots
	of    map[string]*share
}

// share is what one organization has and owes.
type share struct {
	held  []*turn // in slots
	short []*turn // in the short lane
	debt  time.Duration
	at    time.Time // when debt was as much
}

// turn is a document in hand.
type turn struct {
	org   string
	short bool          // in the short lane
	cpu   time.Duration // that reading it has taken by now
}

func newShares(slots, short int) *shares {
	return &shares{slots: slots, short: short, now: time.Now, of: map[string]*share{}}
}

// room returns how many documents may be claimed for so many free slots, and the organizations of which none may be. last reports that
// they are for the last slot. What is left can be claimed right after.
func (s *shares) room(free int) (maximum int, not []string, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == 1 {
		return 1, nil, false
	}
	if last = free == 1; last {
		maximum = 1
	} else {
		maximum = free - 1
	}
	for org, o := range s.of {
		room := s.slots - 1 - len(o.held)
		switch {
		case room <= 0, last && (len(o.held) > 0 || s.owed(o) > quickDebt):
			not = append(not, org)
		case s.idle(o):
			delete(s.of, org)
		default:
			maximum = min(maximum, room)
		}
	}
	slices.Sort(not)
	return maximum, not, last
}

// notShort returns the organizations whose documents may not be claimed for the short lane.
func (s *shares) notShort() (not []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for org, o := range s.of {
		if len(o.short) >= max(s.short-1, 1) || s.owed(o) > shortDebt {
			not = append(not, org)
		}
	}
	slices.Sort(not)
	return not
}

// debts returns what organizations owe, in whole seconds: among those that owe less than one, the time for which documents wait counts.
func (s *shares) debts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	debts := map[string]int64{}
	for org, o := range s.of {
		if seconds := int64(s.owed(o) / time.Second); seconds > 0 {
			debts[org] = seconds
		}
	}
	return debts
}

// owed is the debt now, with what the documents in hand have taken by now.
func (s *shares) owed(o *share) time.Duration {
	debt := s.unpaid(o)
	for _, t := range o.held {
		debt += t.cpu
	}
	for _, t := range o.short {
		debt += t.cpu
	}
	return debt
}

// unpaid is what is left of the debt of documents that were read.
func (s *shares) unpaid(o *share) time.Duration {
	return max(o.debt-time.Duration(s.now().Sub(o.at).Seconds()*float64(repaid)), 0)
}

func (s *shares) idle(o *share) bool {
	return len(o.held) == 0 && len(o.short) == 0 && s.owed(o) == 0
}

// take counts a document in hand.
func (s *shares) take(org string, short bool) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{org: org, short: short}
	if s.of[org] == nil {
		s.of[org] = &share{at: s.now()}
	}
	o := s.of[org]
	if short {
		o.short = append(o.short, t)
		return t
	}
	s.taken++
	o.held = append(o.held, t)
	return t
}

// spend notes how much processor time reading a document in hand has taken by now.
func (s *shares) spend(t *turn, cpu time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.cpu = cpu
}

// giveBack counts a document less, and charges its organization with what it took; left: it had to leave the last slot or the short lane.
func (s *shares) giveBack(t *turn, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of[t.org]
	if t.short {
		o.short = without(o.short, t)
	} else {
		s.taken--
		o.held = without(o.held, t)
	}
	debt := s.unpaid(o) + t.cpu
	if left {
		debt += leftDebt
	}
	o.debt, o.at = min(debt, maxDebt), s.now()
}

func without(turns []*turn, gone *turn) []*turn {
	return slices.DeleteFunc(turns, func(t *turn) bool { return t == gone })
}

// full reports that no slot is free.
func (s *shares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.slots
}
