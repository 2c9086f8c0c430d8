package ingest

import (
	"slices"
	"sync"
	"time"
)

const (
	// quickTime is what a document may take without a charge to its organization: short ones take a fraction of it.
	quickTime = time.Second
	// chargeFactor bounds an organization's use of the last slot: what its documents take beyond quickTime is paid off in so many
	// times as long.
	chargeFactor = 10
	// chargeMost is how much an organization may owe and still get the last slot.
	chargeMost = 30 * time.Second
	// yieldCharge is owed for a document that had to leave the last slot.
	yieldCharge = time.Minute
)

// shares decides whose documents may take the free slots of this worker. An organization holds all slots but one at most, and the last
// free slot is kept for organizations that have no document in hand and whose documents were quick: however many organizations send
// slow ones, a short document of another is read at once. While slow ones have all slots, it waits for the last slot alone.
type shares struct {
	slots int
	now   func() time.Time

	mu    sync.Mutex
	taken int // slots
	of    map[string]*share
}

// share is what one organization has and owes.
type share struct {
	held    int
	settled time.Time // when everything that it owes is paid off
}

func newShares(slots int) *shares {
	return &shares{slots: slots, now: time.Now, of: map[string]*share{}}
}

// room returns how many documents may be claimed for so many free slots, and the organizations of which none may be. last reports that
// they are for the last slot. What is left can be claimed right after.
func (s *shares) room(free int) (most int, not []string, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == 1 {
		return 1, nil, false
	}
	if last = free == 1; last {
		most = 1
	} else {
		most = free - 1
	}
	now := s.now()
	for org, o := range s.of {
		room := s.slots - 1 - o.held
		switch {
		case room <= 0, last && (o.held > 0 || o.settled.Sub(now) > chargeMost):
			not = append(not, org)
		case o.held == 0 && !o.settled.After(now):
			delete(s.of, org)
		default:
			most = min(most, room)
		}
	}
	slices.Sort(not)
	return most, not, last
}

// owing returns the organizations that have a document in hand or owe anything: the last slot is for others first.
func (s *shares) owing() (orgs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for org, o := range s.of {
		if o.held > 0 || o.settled.After(now) {
			orgs = append(orgs, org)
		}
	}
	slices.Sort(orgs)
	return orgs
}

// take counts a document in hand.
func (s *shares) take(org string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	if s.of[org] == nil {
		s.of[org] = &share{}
	}
	s.of[org].held++
}

// giveBack counts a document less that took so long, and charges its organization; yielded: it had to leave the last slot.
func (s *shares) giveBack(org string, took time.Duration, yielded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	o := s.of[org]
	o.held--
	charge := chargeFactor * max(took-quickTime, 0)
	if yielded {
		charge = yieldCharge
	}
	now := s.now()
	if o.settled.Before(now) {
		o.settled = now
	}
	o.settled = o.settled.Add(charge)
}

// full reports that no slot is free.
func (s *shares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.slots
}
