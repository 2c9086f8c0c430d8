package dispatch

import (
	"encoding/binary"
	"sync"
)

// maxSeen is the maximum number of keys in each of the two maps. Together, the maps take about 1
// MB.
const maxSeen = 1 << 15

// seen contains idempotency keys that were recently in use, as far as this process knows, by the
// first eight bytes of their hashes. It is only a hint: the database decides whether a key is in
// use. It is safe for concurrent use. It forgets the older half of the keys when it is full.
type seen struct {
	mu sync.Mutex
	// New keys are in newer. When newer is full, it becomes older, and the previous map older is
	// dropped.
	newer, older map[uint64]struct{}
}

// newSeen returns a memory without keys.
func newSeen() *seen { return &seen{newer: map[uint64]struct{}{}} }

// add remembers a key. It ignores nil.
func (s *seen) add(hash []byte) {
	if hash == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	// All older keys are dropped together, so that it is not necessary to record when each was
	// used.
	if len(s.newer) == maxSeen {
		s.newer, s.older = map[uint64]struct{}{}, s.newer
	}
	s.newer[binary.BigEndian.Uint64(hash)] = struct{}{}
}

// has reports whether the key with this hash was added recently. hash must not be nil. Different
// keys may have the same first bytes, so the result may be wrong.
func (s *seen) has(hash []byte) bool {
	beginning := binary.BigEndian.Uint64(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, newer := s.newer[beginning]
	_, older := s.older[beginning]
	return newer || older
}
