package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestABacklogIsCountedWhenThereMayBeNoMoreRoom lets runs come to wait between two looks, which is when too many could.
func TestABacklogIsCountedWhenThereMayBeNoMoreRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var waiting, counts atomic.Int64
		var failing atomic.Bool
		b := newBacklog(func(_ context.Context, most int) (int, error) {
			counts.Add(1)
			if failing.Load() {
				return 0, errors.New("no database")
			}
			return min(int(waiting.Load()), most), nil
		}, 5)
		ctx, cancel := context.WithCancel(t.Context())
		go b.watch(ctx)
		synctest.Wait()
		offer := func(calls int) (let int) { // as many as come while it is counted
			for range calls {
				if !b.full() {
					waiting.Add(1)
					let++
				}
			}
			synctest.Wait()
			return let
		}
		if let := offer(5); let != 5 || counts.Load() != 0 {
			t.Errorf("%d of 5 were let in, %d counts", let, counts.Load())
		}
		if let := offer(2); let != 2 || counts.Load() != 1 {
			t.Errorf("%d came while it was counted for the first time, %d counts", let, counts.Load())
		}
		if let := offer(1000); let != 0 || counts.Load() != 1 {
			t.Errorf("just counted, %d were let in, %d counts", let, counts.Load())
		}
		waiting.Store(2) // the others are carried out
		<-time.After(backlogLeast)
		synctest.Wait()
		if let := offer(3); let != 3 || counts.Load() != 2 {
			t.Errorf("%d were let in where there was room for 3, %d counts", let, counts.Load())
		}
		failing.Store(true)
		waiting.Store(0)
		<-time.After(time.Minute)
		for _, most := range []int{5, 0, 0} {
			if let := offer(100); let != most {
				t.Errorf("%d were let in while nobody could count, want %d", let, most)
			}
			<-time.After(backlogEvery)
			synctest.Wait()
		}
		failing.Store(false)
		<-time.After(backlogEvery)
		synctest.Wait()
		if let := offer(10); let != 0 {
			t.Errorf("%d were let in, with %d that wait", let, waiting.Load())
		}
		cancel()
	})
}
