package ingest

import (
	"slices"
	"sync"
	"time"
)

const (
	// repayRate is the processor time by which an organization's debt decreases each second.
	repayRate = 250 * time.Millisecond
	// maxDebt is an organization's maximum debt. At repayRate, this debt is repaid in four minutes.
	// A document therefore puts its organization at a disadvantage for at most four minutes after
	// the document has finished.
	maxDebt = time.Minute
	// quickDebt is the maximum debt with which an organization may use the last free slot.
	quickDebt = 3 * time.Second
	// shortDebt is the maximum debt with which an organization may use the short lane. It is about
	// the processor time of a hundred short documents.
	shortDebt = 10 * time.Second
	// leftDebt is added to an organization's debt for each document that had to leave the last slot
	// or the short lane. Such a document is read again from the beginning, which costs processor
	// time.
	leftDebt = 6 * time.Second
)

// shares decides which organizations' documents this worker reads next. It distributes processor
// time fairly, not the number of documents:
//
//   - An organization's debt is the processor time that its documents used recently.
//   - A free slot goes to the organization with the least debt.
//   - An organization may use all slots but one.
//   - The last free slot is reserved for organizations that have little debt and no document in
//     progress.
//   - The short lane has additional slots for short documents of organizations with little debt.
//     There, too, an organization may use all slots but one.
//
// Each worker has its own debts. Other workers distribute their slots in the same way, so an
// organization that sends many documents to several workers has a debt in each of them.
type shares struct {
	// Number of ordinary slots.
	slots int
	short int // number of slots in the short lane
	// Clock, which tests replace.
	now func() time.Time

	mu    sync.Mutex
	taken int // number of ordinary slots in use
	// The shares by organization. An organization without debt and documents has no entry.
	shares map[string]*share
}

// share contains an organization's debt and its documents that occupy slots.
type share struct {
	held  []*turn // documents in ordinary slots
	short []*turn // documents in the short lane
	debt  time.Duration
	at    time.Time // time at which debt was computed
}

// turn is a document that occupies a slot.
type turn struct {
	org   string
	short bool          // true if the document is in the short lane
	cpu   time.Duration // processor time that the document has used so far
}

// newShares returns shares without debts, for the given numbers of slots.
func newShares(slots, short int) *shares {
	return &shares{slots: slots, short: short, now: time.Now, shares: map[string]*share{}}
}

// claimLimit returns the maximum number of documents that may be claimed for the free slots, and
// the organizations that are excluded from this claim. The result last states that the claim is for
// the last free slot. A claim may leave slots free. The next claim can use these slots immediately.
func (s *shares) claimLimit(free int) (maximum int, excluded []string, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A worker with only one slot cannot reserve it.
	if s.slots == 1 {
		return 1, nil, false
	}

	// The last free slot needs a separate claim, because stricter rules apply to it.
	if last = free == 1; last {
		maximum = 1
	} else {
		maximum = free - 1
	}

	// Exclude organizations that have reached their maximum number of slots. Limit the claim to the
	// slots that the other organizations may still take.
	for org, o := range s.shares {
		room := s.slots - 1 - len(o.held)
		switch {
		// The organization has reached its maximum number of slots, or it may not use the last free
		// slot.
		case room <= 0, last && (len(o.held) > 0 || s.owed(o) > quickDebt):
			excluded = append(excluded, org)
		// Remove the entry. Otherwise the map would keep an entry for each organization that ever
		// sent a document.
		case s.idle(o):
			delete(s.shares, org)
		// All documents of a claim may belong to one organization, so limit the claim to the number
		// of slots that any single organization may still use.
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
		// If the short lane has only one slot, every organization may use it.
		if len(o.short) >= max(s.short-1, 1) || s.owed(o) > shortDebt {
			excluded = append(excluded, org)
		}
	}
	slices.Sort(excluded)
	return excluded
}

// debts returns the organizations' debts in whole seconds. It omits debts below one second. The
// database function claim_documents defines the order of organizations with equal debts.
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

// owed returns an organization's current debt, including the processor time that its documents in
// progress have used so far.
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

// unpaid returns the part of an organization's current debt that comes from documents that no
// longer occupy a slot.
func (s *shares) unpaid(o *share) time.Duration {
	// The debt decreases linearly from its last computed value.
	return max(o.debt-time.Duration(s.now().Sub(o.at).Seconds()*float64(repayRate)), 0)
}

// idle reports whether a share has no documents and no debt, so that it can be removed. The caller
// must hold the lock.
func (s *shares) idle(o *share) bool {
	return len(o.held) == 0 && len(o.short) == 0 && s.owed(o) == 0
}

// take records that a document of the organization occupies a slot.
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

	// Count only ordinary slots, because the short lane has no reserved last slot.
	s.taken++
	o.held = append(o.held, t)
	return t
}

// spend records the processor time that a document has used so far.
func (s *shares) spend(t *turn, cpu time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.cpu = cpu
}

// release frees a document's slot and adds the document's processor time to the organization's
// debt. left is true if the document had to leave the last slot or the short lane.
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

	// From now on, the processor time of the document is part of the debt, which decreases with
	// time.
	debt := s.unpaid(o) + t.cpu
	// The document will be read again from the beginning. Charge its organization for this, so that
	// other organizations do not bear the cost.
	if left {
		debt += leftDebt
	}
	o.debt, o.at = min(debt, maxDebt), s.now()
}

// without removes a turn from a list of turns. It changes the list in place and returns it.
func without(turns []*turn, gone *turn) []*turn {
	return slices.DeleteFunc(turns, func(t *turn) bool { return t == gone })
}

// full reports whether all ordinary slots are in use.
func (s *shares) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.slots
}
