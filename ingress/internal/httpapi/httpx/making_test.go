package httpx

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
)

// However many large answers an organization asks for, another's is made after at most one of them.
func TestLargeAnswersAreMadeInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &making{}
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		ask := func(ctx context.Context, of string) {
			all.Go(func() {
				made, err := m.wait(ctx, of)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, of)
				mu.Unlock()
				<-time.After(time.Second)
				made()
				made() // changes nothing
			})
			synctest.Wait()
		}
		for range 4 {
			ask(t.Context(), "red")
		}
		gone, leave := context.WithCancel(t.Context())
		ask(gone, "green")
		leave()
		synctest.Wait()
		ask(t.Context(), "blue")
		ask(t.Context(), "blue")
		all.Wait()
		if want := []string{"red", "blue", "red", "blue", "red", "red"}; !slices.Equal(order, want) {
			t.Errorf("made in the order %v, want %v", order, want)
		}
		if m.busy || len(m.waiting) > 0 || m.served != nil {
			t.Errorf("left behind: %v %v %v", m.busy, m.waiting, m.served)
		}
	})
}

// An answer whose turn does not come is refused, and waits for nothing more.
func TestLargeAnswersWaitForABoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &making{}
		made, err := m.wait(t.Context(), "red")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := m.wait(t.Context(), "blue"); apierr.CodeOf(err) != apierr.Overloaded || time.Since(began) != makingWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		var all sync.WaitGroup
		for range makingMost {
			all.Go(func() { _, _ = m.wait(t.Context(), "red") }) // its turn does not come
		}
		synctest.Wait()
		if _, err := m.wait(t.Context(), "red"); apierr.CodeOf(err) != apierr.RateLimited {
			t.Errorf("one more of the same organization: %v", err)
		}
		all.Wait()
		made()
		made, err = m.wait(t.Context(), "blue")
		if err != nil {
			t.Fatal(err)
		}
		made()
	})
}
