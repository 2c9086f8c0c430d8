package dispatch

import (
	"strconv"
	"testing"

	"parley/shared/contract"
)

func TestTheNewestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	s := newSeen()
	key := func(n int) []byte { return contract.Hash("key", strconv.Itoa(n)) }
	for n := range 3 * maxSeen {
		s.add(key(n))
	}
	for n, want := range map[int]bool{0: false, maxSeen - 1: false, 2 * maxSeen: true, 3*maxSeen - 1: true, 3 * maxSeen: false} {
		if got := s.has(key(n)); got != want {
			t.Errorf("key %d of %d is known: %v", n, 3*maxSeen, got)
		}
	}
	if maximum := len(s.newer) + len(s.older); maximum > 2*maxSeen {
		t.Errorf("%d keys are kept", maximum)
	}
	before := len(s.newer)
	if s.add(nil); len(s.newer) != before {
		t.Error("a run without a key was remembered")
	}
}
