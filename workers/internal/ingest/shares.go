package ingest

import (
	"slices"
	"sync"
	"time"
)

const (
	// repayRate is the processor time by which an organization's debt decreases each second.
	repayRate = 250 * time.Millisecond
	// maxDebt is an organization's maximum debt. At repayRate it is repaid after four minutes, so
	// other organizations are preferred for no longer than that.
	maxDebt = time.Minute
	// quickDebt is the maximum debt with which an organization may use the last free slot.
	quickDebt = 3 * time.Second
	// shortDebt is the maximum debt with which an organization may use the short lane. A hundred
	// short documents sent together use about this much time.
	shortDebt = 10 * time.Second
	// leftDebt is added to an organization's debt for each document that had to leave the last slot
	// or the short lane, because such a document must be read again.
	leftDebt = 6 * time.Second
)

// shares decides which organizations' documents this worker reads. It divides processor time
// fairly, rather than the number of documents:
//
//   - An organization's debt is the processor time that its documents used lately.
//   - A slot goes to an organization with less debt than others.
//   - An organization gets at most all slots but one.
//   - The last free slot is reserved for organizations that have no document in process and
//     little debt.
//   - The short lane is a few more slots for short documents of organizations with little debt.
//     There, too, an organization gets at most all slots but one.
//
// Debts are local to this worker. Other workers divide their slots in the same way, so an
// organization that floods several workers has a debt at each.
type shares struct {
	// number of ordinary slots
	slots int
	short int // number of slots in the short lane
	// clock, which tests replace
	now func() time.Time

	mu    sync.Mutex
	taken int // slots in use
	// by organization; an organization without debt and documents has no entry
	shares map[string]*share
}

// share contains an organization's debt and its documents that occupy slots.
type share struct {
	held  []*turn // documents in slots
	short []*turn // documents in the short lane
	debt  time.Duration
	at    time.Time // time at which debt was computed
}

// turn is a document that occupies a slot.
type turn struct {
	org   string
	short bool          // in the short lane
	cpu   time.Duration // processor time used so far
}

// newShares returns shares without debts, for the given numbers of slots.
func newShares(slots, short int) *shares {
	return &shares{slots: slots, short: short, now: time.Now, shares: map[string]*share{}}
}

// claimLimit returns the number of documents that may be claimed for the free slots, and the
// organizations excluded from this claim. last is true if the claim is for the last free slot. A
// claim may leave slots free; the next claim can use them immediately.
func (s *shares) claimLimit(free int) (maximum int, excluded []string, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// With a single slot there is nothing to reserve.
	if s.slots == 1 {
		return 1, nil, false
	}

	// Leave the last slot for a separate claim, to which stricter rules apply.
	if last = free == 1; last {
		maximum = 1
	} else {
		maximum = free - 1
	}

	// Exclude organizations that have reached their maximum, and limit the claim to the slots that the other organizations may still take.
	for org, o := range s.shares {
		room := s.slots - 1 - len(o.held)
		switch {
		// The organization has all slots that it may have, or it may not use the last slot.
		case room <= 0, last && (len(o.held) > 0 || s.owed(o) > quickDebt):
			excluded = append(excluded, org)
		// Remove the entry, so that the map does not grow with each organization that ever sent a
		// document.
		case s.idle(o):
			delete(s.shares, org)
		// A claim may give all its documents to one organization, so the smallest room limits the
		// claim.
		default:
			maximum = min(maximum, room)
		}
	}
	slices.Sort(excluded)
	return maximum, excluded, last
}

// excludedFromShort returns the organizations that may not use the short lane.
func (s *shares) excludedFromShort() (excluded []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for org, o := range s.shares {
		// With a single slot the organization may use it, because there is none to reserve.
		if len(o.short) >= max(s.short-1, 1) || s.owed(o) > shortDebt {
			excluded = append(excluded, org)
		}
	}
	slices.Sort(excluded)
	return excluded
}

// debts returns the organizations' debts in whole seconds. It omits debts below one second, so that
// only the waiting time of the documents decides between organizations with such debts.
func (s *shares) debts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	debts := map[string]int64{}
	for org, o := range s.shares {
		if seconds := int64(s.owed(o) / time.Second); seconds > 0 {
			debts[org] = seconds
		}
	}
	return debts
}

// owed returns an organization's current debt, including the time used so far by its documents in progress.
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

// unpaid returns an organization's current debt for its finished documents.
func (s *shares) unpaid(o *share) time.Duration {
	// The debt decreases linearly from its last value. It is computed only when it is needed.
	return max(o.debt-time.Duration(s.now().Sub(o.at).Seconds()*float64(repayRate)), 0)
}

// idle reports whether a share contains no information and can be removed. The caller must hold the
// lock.
func (s *shares) idle(o *share) bool {
	return len(o.held) == 0 && len(o.short) == 0 && s.owed(o) == 0
}

// take adds a document to the slots that an organization uses.
func (s *shares) take(org string, short bool) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{org: org, short: short}
	if s.shares[org] == nil {
		s.shares[org] = &share{at: s.now()}
	}

	o := s.shares[org]
	if short {
		o.short = append(o.short, t)
		return t
	}

	// Only ordinary slots count: the short lane has no last slot to reserve.
	s.taken++
	o.held = append(o.held, t)
	return t
}

// spend sets the processor time that a document has used so far.
func (s *shares) spend(t *turn, cpu time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.cpu = cpu
}

// release frees a document's slot and adds the document's processor time to the debt. left is true
// if the document had to leave the last slot or the short lane.
func (s *shares) release(t *turn, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.shares[t.org]
	if t.short {
		o.short = without(o.short, t)
	} else {
		s.taken--
		o.held = without(o.held, t)
	}

	// The document's processor time moves from the running turn to the debt, which begins to
	// decrease now.
	debt := s.unpaid(o) + t.cpu
	// The work so far is lost, and this organization must bear it and not the others.
	if left {
		debt += leftDebt
	}
	o.debt, o.at = min(debt, maxDebt), s.now()
}

// without removes a turn from a list. It changes the list in place.
func without(turns []*turn, gone *turn) []*turn {
	return slices.DeleteFunc(turns, func(t *turn) bool { return t == gone })
}

// full reports whether no slot is free.
func (s *shares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.slots
}
