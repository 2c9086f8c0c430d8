package dispatch

import (
	"encoding/binary"
	"sync"
)

// maxSeen is the maximum number of keys in each of the two maps, which take about 1 MB in total.
const maxSeen = 1 << 15

// seen remembers the idempotency keys that this process has recently found in use, by the first
// bytes of their hashes. It is only a hint: the database decides whether a key is in use.
type seen struct {
	mu sync.Mutex
	// add inserts keys into newer. When newer is full, it replaces older, and the previous older is
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

	// The older keys are dropped all together, so that the order of use need not be tracked.
	if len(s.newer) == maxSeen {
		s.newer, s.older = map[uint64]struct{}{}, s.newer
	}
	s.newer[binary.BigEndian.Uint64(hash)] = struct{}{}
}

// has reports whether add was called with this hash recently. hash must not be nil.
func (s *seen) has(hash []byte) bool {
	beginning := binary.BigEndian.Uint64(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, newer := s.newer[beginning]
	_, older := s.older[beginning]
	return newer || older
}
