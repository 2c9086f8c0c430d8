package dispatch

import (
	"encoding/binary"
	"sync"
)

// maxSeen is how many keys each half of the memory holds: some 1 MB in all.
const maxSeen = 1 << 15

// seen are keys that this process has found held, the newest, by the beginnings of their hashes. It is a hint: whether one is held
// only its row tells.
type seen struct {
	mu           sync.Mutex
	newer, older map[uint64]struct{}
}

func newSeen() *seen { return &seen{newer: map[uint64]struct{}{}} }

// add notes a key; nil is none.
func (s *seen) add(hash []byte) {
	if hash == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.newer) == maxSeen {
		s.newer, s.older = map[uint64]struct{}{}, s.newer
	}
	s.newer[binary.BigEndian.Uint64(hash)] = struct{}{}
}

func (s *seen) has(hash []byte) bool {
	beginning := binary.BigEndian.Uint64(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, newer := s.newer[beginning]
	_, older := s.older[beginning]
	return newer || older
}
