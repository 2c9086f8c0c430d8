package dispatch

import (
	"strconv"
	"testing"

	"parley/shared/contract"
)

func TestSeenKeysAreTheNewest(t *testing.T) {
	t.Parallel()
	s := newSeen()
	key := func(n int) []byte { return contract.Hash("key", strconv.Itoa(n)) }
	for n := range 3 * seenMost {
		s.add(key(n))
	}
	for n, want := range map[int]bool{0: false, seenMost - 1: false, 2 * seenMost: true, 3*seenMost - 1: true, 3 * seenMost: false} {
		if got := s.has(key(n)); got != want {
			t.Errorf("key %d of %d is known: %v", n, 3*seenMost, got)
		}
	}
	if most := len(s.newer) + len(s.older); most > 2*seenMost {
		t.Errorf("%d keys are kept", most)
	}
	before := len(s.newer)
	if s.add(nil); len(s.newer) != before {
		t.Error("no key was noted")
	}
}
