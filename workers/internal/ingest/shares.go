package ingest

import (
	"slices"
	"sync"
)

// shares counts the documents in hand of each organization, so that one with many slow documents leaves a slot for the others.
type shares struct {
	most int // of one organization
	mu   sync.Mutex
	of   map[string]int
}

func newShares(concurrency int) *shares {
	return &shares{most: max(1, concurrency-1), of: map[string]int{}}
}

// room is how many documents may be claimed at once, of so many slots, and of which organizations none: whosever they are, none gets
// more than its share. What is left can be claimed right after.
func (s *shares) room(free int) (most int, not []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most = min(free, s.most)
	for org, n := range s.of {
		if n >= s.most {
			not = append(not, org)
			continue
		}
		most = min(most, s.most-n)
	}
	slices.Sort(not)
	return most, not
}

func (s *shares) take(org string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[org]++
}

// giveBack counts a document less, and tells whether its organization had its whole share.
func (s *shares) giveBack(org string) (full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full = s.of[org] >= s.most
	if s.of[org]--; s.of[org] <= 0 {
		delete(s.of, org)
	}
	return full
}
