package httpx

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
)

// The next turn goes to the organization with the fewest recently rendered bytes, however many
// large responses other organizations request.
func TestLargeAnswersAreMadeInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &answerQueue{}
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		ask := func(ctx context.Context, owner string, bytes int) {
			all.Go(func() {
				made, err := m.wait(ctx, owner, bytes)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, owner)
				mu.Unlock()
				<-time.After(100 * time.Millisecond)
				made()
				made() // a second call has no effect
			})
			synctest.Wait()
		}
		began := time.Now()
		for range 4 {
			ask(t.Context(), "red", 2<<20)
		}
		gone, leave := context.WithCancel(t.Context())
		ask(gone, "green", 2<<20)
		leave()
		synctest.Wait()
		ask(t.Context(), "blue", 2<<20)
		ask(t.Context(), "blue", 2<<20)
		all.Wait()
		if want := []string{"red", "blue", "red", "blue", "red", "red"}; !slices.Equal(order, want) {
			t.Errorf("made in the order %v, want %v", order, want)
		}
		if took := time.Since(began); took != 1100*time.Millisecond {
			t.Errorf("six answers of 100 ms took %s, want a pause of 100 ms between any two", took)
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if m.busy || len(m.waiting) > 0 {
			t.Errorf("responses are still waiting: %v", m.waiting)
		}
		order = nil
		for _, owner := range []string{"red", "red", "blue", "green"} {
			ask(t.Context(), owner, 2<<20)
		}
		ask(t.Context(), "white", 8<<20)
		ask(t.Context(), "black", 100<<10)
		all.Wait()
		if want := []string{"red", "black", "green", "white", "blue", "red"}; !slices.Equal(order, want) {
			t.Errorf("of several sizes, made in the order %v, want %v", order, want)
		}
		<-time.After(maxRecentBytes / decayPerSecond * time.Second)
		for owner := range 300 {
			m.count(strconv.Itoa(owner), 0)
		}
		if len(m.made) > 256 {
			t.Errorf("%d organizations are remembered", len(m.made))
		}
	})
}

// Forty organizations continuously request responses of 70 KiB. Responses of 4 MiB to another
// organization are delayed only slightly.
func TestManySmallAnswersDoNotDelayALargeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &answerQueue{}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		ask := func(ctx context.Context, owner string, bytes int, takes time.Duration) {
			all.Go(func() {
				if made, err := m.wait(ctx, owner, bytes); err == nil {
					<-time.After(takes)
					made()
				}
			})
		}
		for n := range 40 {
			all.Go(func() {
				<-time.After(time.Duration(n) * time.Millisecond)
				for ctx.Err() == nil {
					ask(ctx, strconv.Itoa(n), 70<<10, 3*time.Millisecond)
					<-time.After(100 * time.Millisecond)
				}
			})
		}
		<-time.After(5 * time.Second)
		for n := range 5 {
			began := time.Now()
			made, err := m.wait(ctx, "victim", 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			// The response may wait for 160 turns of 6 ms, and for half a second for each response
			// of 4 MiB to its organization, including this one.
			if waited, maximum := time.Since(began), time.Second+time.Duration(n+1)*500*time.Millisecond; waited > maximum {
				t.Errorf("large answer %d waited for %s", n, waited)
			}
			<-time.After(20 * time.Millisecond)
			made()
			<-time.After(time.Second)
		}
		stop()
		all.Wait()
	})
}

// If the turn of a response does not come in time, the response leaves the queue, and the request
// is rejected.
func TestLargeAnswersWaitForABoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &answerQueue{}
		made, err := m.wait(t.Context(), "red", 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := m.wait(t.Context(), "blue", 2<<20); apierr.CodeFor(err) != apierr.Overloaded || time.Since(began) != queueTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		var all sync.WaitGroup
		for range maxQueued {
			all.Go(func() { _, _ = m.wait(t.Context(), "red", 2<<20) }) // the turn of this response never begins
		}
		synctest.Wait()
		if _, err := m.wait(t.Context(), "red", 2<<20); apierr.CodeFor(err) != apierr.RateLimited {
			t.Errorf("one more of the same organization: %v", err)
		}
		all.Wait()
		made()
		made, err = m.wait(t.Context(), "blue", 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		made()
	})
}
