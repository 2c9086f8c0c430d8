package queuedb

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
)

// counter counts slots in a test. It replaces the database.
type counter struct {
	slots      int
	dispatched map[string]int // chats of each organization
	waiting    []string
	counts     int
	takes      time.Duration
	failing    bool
}

func (c *counter) count(context.Context) (count, error) {
	c.counts++
	<-time.After(c.takes)
	if c.failing {
		return count{}, context.DeadlineExceeded
	}
	out := count{slots: c.slots, dispatched: map[Lane]int{}}
	for org, n := range c.dispatched {
		out.dispatched[chatsFor(org)] = n
	}
	for _, org := range c.waiting {
		out.waiting = append(out.waiting, chatsFor(org))
	}
	return out, nil
}

func chatsFor(org string) Lane { return Lane{org, domain.LaneChat} }

var chats = chatsFor("org")

// ask makes a count if necessary, and fills up to n slots of an organization.
func (s *slots) ask(ctx context.Context, org string, n int) int {
	s.refresh(ctx, domain.LaneChat)
	return s.fill(chatsFor(org), n)
}

// If two processes fill the same lane, they exceed its slots only slightly.
func TestProcessesFillHalfOfTheFreeSlotsBetweenCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 100, dispatched: map[string]int{}}
		a, b := newSlots(c.count), newSlots(c.count)
		first := a.ask(t.Context(), "org", 1000) + b.ask(t.Context(), "org", 1000)
		if first != 100 {
			t.Errorf("the processes filled %d slots, want 100", first)
		}
		c.dispatched["org"] = first
		for range 20 {
			<-time.After(slotsFull)
			c.dispatched["org"] += a.ask(t.Context(), "org", 1000) + b.ask(t.Context(), "org", 1000)
		}
		if c.dispatched["org"] != 100 {
			t.Errorf("%d slots are taken, want 100", c.dispatched["org"])
		}
	})
}

// A process does not fill slots that it counted before another process filled them.
func TestAnOldCountGrantsNoSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 5000, dispatched: map[string]int{}}
		a, b := newSlots(c.count), newSlots(c.count)
		c.dispatched["org"] = b.ask(t.Context(), "org", 1)
		for c.dispatched["org"] < 5000 { // takes less than a second
			<-time.After(12 * time.Millisecond)
			c.dispatched["org"] += a.ask(t.Context(), "org", 100)
		}
		if n := b.ask(t.Context(), "org", 1000); n != 0 {
			t.Errorf("%d slots were filled in a full lane", n)
		}
	})
}

// The process spends at most a twentieth of its time on counting.
func TestCountingTakesLittleTime(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]int{"free": 0, "full": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &counter{slots: 100, dispatched: map[string]int{"org": used}, takes: 200 * time.Millisecond}
				s := newSlots(c.count)
				for began := time.Now(); time.Since(began) < time.Minute; {
					s.ask(t.Context(), "org", 1)
					<-time.After(time.Millisecond)
				}
				if c.counts > 16 {
					t.Errorf("%d counts of 200 ms in a minute, want at most 16", c.counts)
				}
			})
		})
	}
}

// While slots are free, one organization may use all of them.
func TestAnOrganizationMayUseEveryFreeSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 5000}
		s := newSlots(c.count)
		taken := 0
		for range 100 {
			n := s.ask(t.Context(), "org", 128)
			taken += n
			c.dispatched = map[string]int{"org": taken}
		}
		if taken != 5000 {
			t.Errorf("the organization got %d slots, want 5000", taken)
		}
	})
}

// In a full lane, organizations below their share get reserve slots. An organization that has its
// share gets none.
func TestReserveIsForOrganizationsBelowTheirShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 80, dispatched: map[string]int{"large": 80}}
		s := newSlots(c.count)
		if n := s.ask(t.Context(), "large", 5); n != 0 {
			t.Errorf("the organization with all slots got %d more", n)
		}
		if n := s.ask(t.Context(), "small", 3); n != 3 {
			t.Errorf("an organization without a slot got %d of 3", n)
		}
		if n := s.ask(t.Context(), "other", 20); n == 0 || n > Reserve(80)-3 {
			t.Errorf("the next organization got %d slots of a reserve of %d", n, Reserve(80))
		}
	})
}

// While one organization fills the last free slots quickly, each count grants only a part of them.
// An organization with few runs does not wait for the next count.
func TestAnOrganizationWithFewRunsDoesNotWaitForACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 800, dispatched: map[string]int{"flood": 720}, takes: 40 * time.Millisecond}
		s := newSlots(c.count)
		if n := s.ask(t.Context(), "flood", 80); n == 0 || n == 80 {
			t.Fatalf("the flood filled %d of 80 free slots", n)
		}
		if n := s.ask(t.Context(), "flood", 80); n != 0 {
			t.Errorf("the flood filled %d slots before the next count", n)
		}
		if n := s.ask(t.Context(), "small", 3); n != 3 || c.counts != 1 {
			t.Errorf("the other organization filled %d of 3 slots after %d counts", n, c.counts)
		}
	})
}

// A freed reserve slot is used by another organization below its share, without a new count.
func TestFreedReserveSlotsReturnToTheReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 16, dispatched: map[string]int{"flood": 16}}
		s := newSlots(c.count)
		for _, org := range []string{"a", "b"} {
			if n := s.ask(t.Context(), org, 1); n != 1 {
				t.Fatalf("%d of 1 reserve slots were filled", n)
			}
		}
		if n := s.ask(t.Context(), "c", 1); n != 0 {
			t.Fatalf("%d runs got a slot above the reserve", n)
		}

		s.free(FreedSlots{chatsFor("a"): {Slots: 1}})
		if flood, other := s.ask(t.Context(), "flood", 1), s.ask(t.Context(), "c", 1); flood != 0 || other != 1 {
			t.Errorf("the freed slot went to the flood: %d, to another organization: %d", flood, other)
		}
		if c.counts != 1 {
			t.Errorf("counted %d times", c.counts)
		}
	})
}

// In a full lane with waiting runs, new runs of an organization that has its share do not take a
// freed slot.
func TestNewRunsDoNotOvertakeWaitingOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 80, dispatched: map[string]int{"large": 79, "small": 1}, waiting: []string{"small"}}
		s := newSlots(c.count)
		s.refresh(t.Context())
		s.free(FreedSlots{chatsFor("large"): {Slots: 1}})
		if n := s.fill(chatsFor("large"), 1); n != 0 {
			t.Errorf("a new run of the large organization took the freed slot")
		}
		if got := s.pass(domain.LaneChat, 1); got[chatsFor("small")] != 1 {
			t.Errorf("the freed slot went to %v, want the waiting run", got)
		}
	})
}

// In a lane with few free slots, new runs do not take a freed slot, even if a count includes the
// slot before it is passed to a waiting run. While many slots are free, new runs take them, because
// a run of a session may wait for an earlier one.
func TestNewRunsDoNotOvertakeWaitingOnesAfterACount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ large, small, want int }{
		"few free slots":      {large: 78, small: 1, want: 0},
		"many free slots":     {large: 60, small: 1, want: 1},
		"below the own share": {large: 39, small: 40, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dispatched := map[string]int{"large": c.large, "small": c.small}
				s := newSlots((&counter{slots: 80, dispatched: dispatched, waiting: []string{"small"}}).count)
				if n := s.ask(t.Context(), "large", 1); n != c.want {
					t.Errorf("a new run of the large organization got %d slots, want %d", n, c.want)
				}
			})
		})
	}
}

// A freed slot of a full lane goes to the waiting organization with the fewest dispatched runs.
func TestFreedSlotsGoToTheOrganizationWithTheFewestRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dispatched map[string]int
		freed      int
		want       map[Lane]int
	}{
		"one slot":         {map[string]int{"a": 90, "b": 10, "c": 5}, 1, map[Lane]int{chatsFor("c"): 1}},
		"up to the same":   {map[string]int{"a": 90, "b": 10, "c": 5}, 5, map[Lane]int{chatsFor("c"): 5}},
		"then in turn":     {map[string]int{"a": 90, "b": 10, "c": 5}, 11, map[Lane]int{chatsFor("b"): 3, chatsFor("c"): 8}},
		"everybody":        {map[string]int{"a": 99, "b": 3, "c": 3}, 9, map[Lane]int{chatsFor("b"): 5, chatsFor("c"): 4}},
		"the same numbers": {map[string]int{"a": 38, "b": 35, "c": 35}, 3, map[Lane]int{chatsFor("a"): 1, chatsFor("b"): 1, chatsFor("c"): 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				total := 0
				for _, n := range c.dispatched {
					total += n
				}
				s := newSlots((&counter{slots: total, dispatched: c.dispatched, waiting: []string{"a", "b", "c"}}).count)
				s.refresh(t.Context())

				s.free(FreedSlots{chatsFor("a"): {Slots: c.freed}})
				if got := s.pass(domain.LaneChat, c.freed); !maps.Equal(got, c.want) {
					t.Errorf("slots went to %v, want %v", got, c.want)
				}
			})
		})
	}
}

// Freed slots are used without a new count, except when the number of slots has become smaller.
func TestFreedSlotsPassOnWithoutACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 100, dispatched: map[string]int{"org": 100}}
		s := newSlots(c.count)
		s.refresh(t.Context())
		freed := FreedSlots{chats: {Slots: 1}}
		for range 500 {
			s.free(freed)
			s.refresh(t.Context())
			s.markWaiting(chats)
			if n := s.pass(domain.LaneChat, 1)[chats]; n != 1 {
				t.Fatalf("%d slots were passed on, want 1", n)
			}
		}
		if c.counts != 1 {
			t.Errorf("%d counts, want 1", c.counts)
		}

		c.slots = 40
		s.forget()
		s.refresh(t.Context())
		passed := 0
		for range 100 {
			s.free(freed)
			s.markWaiting(chats)
			passed += s.pass(domain.LaneChat, 1)[chats]
		}
		if passed != 40 {
			t.Errorf("%d slots were passed on, want 40", passed)
		}
	})
}

// If the first count fails, no slots are filled.
func TestSlotsThatCannotBeCountedAreNotFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{slots: 100, failing: true}
		s := newSlots(c.count)
		if n := s.ask(t.Context(), "org", 5); n != 0 {
			t.Errorf("%d slots were filled, want 0", n)
		}
		c.failing = false
		<-time.After(slotsFull)
		if n := s.ask(t.Context(), "org", 5); n != 5 {
			t.Errorf("%d slots were filled after a count, want 5", n)
		}
	})
}
