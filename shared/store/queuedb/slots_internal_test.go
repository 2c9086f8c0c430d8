package queuedb

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
)

// counter counts a lane like the database.
type counter struct {
	used, counts int
	takes        time.Duration
	failing      bool
}

func (c *counter) count(_ context.Context, lanes []Lane, maximum int) (map[Lane]int, error) {
	c.counts++
	<-time.After(c.takes)
	if c.failing {
		return nil, context.DeadlineExceeded
	}
	return map[Lane]int{lanes[0]: min(c.used, maximum)}, nil
}

var chats = Lane{"org", domain.LaneChat}

// ask refreshes the lane, which has 100 slots, and fills up to n slots.
func (s *slots) ask(ctx context.Context, n int) int {
	s.refresh(ctx, []Lane{chats}, 100, true)
	return s.fill(chats, n, 100)
}

// Two processes that fill the same lane exceed its limit only slightly.
func TestProcessesFillHalfOfTheFreeSlotsBetweenCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		a, b := newSlots(c.count), newSlots(c.count)
		first := a.ask(t.Context(), 1000) + b.ask(t.Context(), 1000)
		if first != 100 {
			t.Errorf("both filled %d at once, want 100", first)
		}
		c.used = first
		for range 20 {
			<-time.After(slotsFull)
			c.used += a.ask(t.Context(), 1000) + b.ask(t.Context(), 1000)
		}
		if c.used != 100 {
			t.Errorf("%d are used, want 100", c.used)
		}
	})
}

// Between two counts, a lane is not counted for at least nine times the duration of a count, so
// that counting uses at most a tenth of the time.
func TestCountingUsesAtMostATenthOfTheTime(t *testing.T) {
	t.Parallel()
	for name, used := range map[string]int{"free": 0, "full": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &counter{used: used, takes: 200 * time.Millisecond}
				s := newSlots(c.count)
				for began := time.Now(); time.Since(began) < time.Minute; {
					s.ask(t.Context(), 1)
					<-time.After(time.Millisecond)
				}
				if c.counts > 31 {
					t.Errorf("%d counts of 200 ms in a minute", c.counts)
				}
			})
		})
	}
}

// Freed slots are passed on without a count, except those above the limit.
func TestFreedSlotsPassOnWithoutACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{used: 100}
		s := newSlots(c.count)
		s.ask(t.Context(), 0)
		for range 500 {
			s.recordFreed(chats, 1)
			s.refresh(t.Context(), []Lane{chats}, 100, false)
			if n := s.take(chats, 1, 100); n != 1 {
				t.Fatalf("%d slots passed on", n)
			}
		}
		if c.counts != 1 {
			t.Errorf("%d counts", c.counts)
		}
		passed := 0
		for range 100 { // the limit was lowered
			s.recordFreed(chats, 1)
			passed += s.take(chats, 1, 40)
		}
		if passed != 40 {
			t.Errorf("%d slots passed on, want 40", passed)
		}
	})
}

// A lane that cannot be counted has no free slots.
func TestSlotsThatCannotBeCountedAreNotFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{failing: true}
		s := newSlots(c.count)
		if n := s.ask(t.Context(), 5); n != 0 {
			t.Errorf("%d were filled", n)
		}
		c.failing = false
		<-time.After(slotsFull)
		if n := s.ask(t.Context(), 5); n != 5 {
			t.Errorf("%d of 5 were filled once it could be counted", n)
		}
	})
}
