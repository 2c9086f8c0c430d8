package lifecycle

import "testing"

func TestASmallHeapIsCollectedSeldom(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1: 400, 8 << 20: 400, 16 << 20: 400, 20 << 20: 300, 32 << 20: 200, 60 << 20: 100, 64 << 20: 100, 4 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes in use: %d percent, want %d", live, got, want)
		}
		if room := live * uint64(gcPercent(live)) / 100; room > heapRoom && room > live {
			t.Errorf("%d bytes in use may grow by %d", live, room)
		}
	}
}
