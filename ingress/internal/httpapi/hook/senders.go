package hook

import (
	"context"
	"sync"
	"time"

	"parley/ingress/internal/webhookin/intake"
)

const (
	senderKept = 24 * time.Hour // in memory, and then it is written again
	sendersMax = 20_000         // that are remembered
	// senderWait bounds writing a sender down: its delivery is answered after that.
	senderWait = 2 * time.Second
)

// verify remembers that a client address has sent a hook a signed delivery: here for a day, and in the database for all ingresses. What
// cannot be written is forgotten, so that the next delivery tries again.
func (h *Handler) verify(ctx context.Context, hook *intake.Hook, client string) {
	sender := hook.ID + " " + client
	if !h.senders.add(sender) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, senderWait)
	defer cancel()
	if err := h.HooksDB.VerifySender(ctx, hook.OrganizationID, hook.ID, client); err != nil {
		h.Log.Warn().Err(err).Str("org_id", hook.OrganizationID).Msg("cannot store the verified sender of a hook")
		h.senders.forget(sender)
	}
}

// verifiedSenders remembers for a day which client addresses have sent a hook a signed delivery. The zero value knows none.
type verifiedSenders struct {
	mu    sync.Mutex
	until map[string]time.Time // by hook and client address
}

// know reports whether the sender is verified.
func (s *verifiedSenders) know(sender string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[sender])
}

// add remembers a sender whose delivery was verified, for a day. It reports false if the sender is known. When too many are known it
// forgets those that have expired, or else any one of them.
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
	if !known && len(s.until) >= sendersMax {
		s.shrink(now)
	}
	s.until[sender] = now.Add(senderKept)
	return true
}

// shrink drops the senders that have expired, and a tenth of the rest when that was not enough.
func (s *verifiedSenders) shrink(now time.Time) {
	for sender, until := range s.until {
		if !now.Before(until) {
			delete(s.until, sender)
		}
	}
	for sender := range s.until {
		if len(s.until) <= sendersMax-sendersMax/10 {
			return
		}
		delete(s.until, sender)
	}
}

func (s *verifiedSenders) forget(sender string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, sender)
}
