package hook

import (
	"context"
	"sync"
	"time"

	"parley/ingress/internal/webhookin/intake"
)

const (
	senderTTL  = 24 * time.Hour // how long a sender stays in memory; after that, its next delivery stores it again
	maxSenders = 20_000         // maximum number of senders in memory
	// storeTimeout is the timeout for storing a sender. It is short, because the response waits.
	storeTimeout = 2 * time.Second
)

// verify records that a client address has sent a signed delivery to a hook. The record is kept in
// memory for a day and in PostgreSQL for all ingress processes. Other processes find it in
// hook.Senders, which they read from PostgreSQL. If the record cannot be stored, it is stored at
// the next delivery from this address.
func (h *Handler) verify(ctx context.Context, hook *intake.Hook, client string) {
	sender := hook.ID + " " + client
	if !h.senders.add(sender) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := h.HooksDB.VerifySender(ctx, hook.OrganizationID, hook.ID, client); err != nil {
		h.Log.Warn().Err(err).Str("org_id", hook.OrganizationID).Msg("cannot store the verified sender of a hook")
		h.senders.forget(sender)
	}
}

// verifiedSenders is a cache of the client addresses that have sent a signed delivery to a hook. An
// entry expires after a day. The zero value is an empty cache. It is safe for concurrent use.
type verifiedSenders struct {
	mu    sync.Mutex
	until map[string]time.Time // by hook and client address
}

// has reports whether the sender is in the cache and has not expired.
func (s *verifiedSenders) has(sender string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[sender])
}

// add adds a sender for a day. It returns false if the sender is already in the cache. If the cache
// is full, add first removes expired senders and, if necessary, arbitrary senders. The caller
// stores the sender if add returns true.
func (s *verifiedSenders) add(sender string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}

	now := time.Now()
	until, known := s.until[sender]
	if now.Before(until) {
		return false
	}
	if !known && len(s.until) >= maxSenders {
		s.shrink(now)
	}

	s.until[sender] = now.Add(senderTTL)
	return true
}

// shrink removes the expired senders. If the cache is still full, shrink removes a tenth of the
// others, so that the whole cache need not be searched for every new sender. The caller holds the
// lock.
func (s *verifiedSenders) shrink(now time.Time) {
	for sender, until := range s.until {
		if !now.Before(until) {
			delete(s.until, sender)
		}
	}

	for sender := range s.until {
		if len(s.until) <= maxSenders-maxSenders/10 {
			return
		}
		delete(s.until, sender)
	}
}

// forget removes a sender from the cache, so that its next delivery stores it again. It has no
// effect on the database.
func (s *verifiedSenders) forget(sender string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, sender)
}
