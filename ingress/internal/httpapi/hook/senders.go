package hook

import (
	"sync"
	"time"
)

const (
	senderKept = 24 * time.Hour // since its last verified delivery
	sendersMax = 20_000         // that are remembered
)

// verifiedSenders remembers which client addresses have sent a hook a delivery that was signed as it should be. It is in
// memory only: after a restart each sender is a stranger until its next delivery. The zero value knows none.
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

// add remembers a sender whose delivery was verified. When too many are known it forgets those that have expired, or else
// any one of them.
func (s *verifiedSenders) add(sender string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	now := time.Now()
	if _, known := s.until[sender]; !known && len(s.until) >= sendersMax {
		s.shrink(now)
	}
	s.until[sender] = now.Add(senderKept)
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
