package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/batch"
)

func TestGroupBatchesOnlyWhileBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		var sizes []int
		g := batch.New(4, 100, func(_ context.Context, in []int) ([]int, error) {
			sizes = append(sizes, len(in))
			<-release
			out := make([]int, len(in))
			for i, v := range in {
				out[i] = v * 2
			}
			return out, nil
		})
		go g.Run(ctx)

		var wg sync.WaitGroup
		ask := func(v int) {
			wg.Go(func() {
				got, err := g.Do(t.Context(), v)
				if err != nil || got != v*2 {
					t.Errorf("Do(%d) = %d, %v", v, got, err)
				}
			})
		}
		ask(1)
		synctest.Wait() // the first call is executed alone
		for v := 2; v <= 7; v++ {
			ask(v)
		}
		synctest.Wait() // six calls are collected after the first
		close(release)
		wg.Wait()
		cancel()
		synctest.Wait()
		if want := []int{1, 4, 2}; len(sizes) != 3 || sizes[0] != want[0] || sizes[1] != want[1] || sizes[2] != want[2] {
			t.Errorf("batch sizes = %v, want %v", sizes, want)
		}
		if _, err := g.Do(t.Context(), 1); err == nil {
			t.Error("a call after the end was carried out")
		}
	})
}

// TestGroupWaitsForFurtherCalls runs ten callers, each of which calls again some time after its
// last result. Their calls soon share batches. A single caller never waits for other calls.
func TestGroupWaitsForFurtherCalls(t *testing.T) {
	t.Parallel()
	const call, between = 2 * time.Millisecond, 100 * time.Microsecond
	for _, callers := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			batches, calls := 0, 0
			g := batch.New(64, 100, func(_ context.Context, in []int) ([]int, error) {
				batches, calls = batches+1, calls+len(in)
				<-time.After(call)
				return in, nil
			})
			go g.Run(ctx)
			began := time.Now()
			var all sync.WaitGroup
			for n := range callers {
				all.Go(func() {
					for range 20 {
						<-time.After(time.Duration(n) * between)
						if _, err := g.Do(ctx, n); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			took := time.Since(began)
			if callers == 1 && took != 20*call {
				t.Errorf("one caller took %s for what takes %s", took, 20*call)
			}
			if callers > 1 && (calls < 9*batches || took > 20*(time.Duration(callers)*between+2*call)) {
				t.Errorf("%d callers: %d calls in %d batches, %s", callers, calls, batches, took)
			}
		})
	}
}

// A group waits at most a few milliseconds for further calls, even if batches take long. An eager
// group does not wait at all.
func TestGroupsWaitIsLimited(t *testing.T) {
	t.Parallel()
	for _, eager := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			g := batch.New(64, 100, func(_ context.Context, in []int) ([]int, error) {
				<-time.After(time.Minute)
				return in, nil
			})
			if eager {
				g.Eager()
			}
			go g.Run(ctx)
			var all sync.WaitGroup
			for n := range 3 {
				all.Go(func() { _, _ = g.Do(ctx, n) })
				if n == 0 {
					synctest.Wait() // the first call is executed alone, and the next two together
				}
			}
			all.Wait()
			began := time.Now()
			if _, err := g.Do(ctx, 4); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began) - time.Minute; waited > 5*time.Millisecond || eager != (waited == 0) {
				t.Errorf("eager %v: waited %s", eager, waited)
			}
		})
	}
}

func TestGroupFailsAllCallersOfABatchAndRefusesWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		boom := errors.New("boom")
		release := make(chan struct{})
		g := batch.New(8, 1, func(context.Context, []int) ([]int, error) { <-release; return nil, boom })
		go g.Run(ctx)
		errs := make(chan error, 2)
		go func() { _, err := g.Do(t.Context(), 1); errs <- err }()
		synctest.Wait()
		go func() { _, err := g.Do(t.Context(), 2); errs <- err }()
		synctest.Wait()
		if _, err := g.Do(t.Context(), 3); !errors.Is(err, batch.ErrFull) {
			t.Errorf("third call: %v, want ErrFull", err)
		}
		close(release)
		for range 2 {
			if err := <-errs; !errors.Is(err, boom) {
				t.Errorf("err = %v, want boom", err)
			}
		}
	})
}

// A batch does not exceed its size limit, and a call that does not fit is the first of the next
// batch. A request above the limit is executed alone.
func TestGroupLimitsTheSizeOfABatch(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			release := make(chan struct{})
			var batches [][]int
			g := batch.New(4, 100, func(_ context.Context, in []int) ([]int, error) {
				batches = append(batches, slices.Clone(in))
				<-release
				return in, nil
			}).Sized(10, func(n int) int { return n })
			go g.Run(ctx)
			var all sync.WaitGroup
			for _, n := range []int{1, 5, 4, 1, 25, 6, 5, 2, 1, 1, 1} {
				all.Go(func() {
					if got, err := g.Do(t.Context(), n); err != nil || got != n {
						t.Errorf("Do(%d) = %d, %v", n, got, err)
					}
				})
				synctest.Wait()
			}
			if stopped {
				cancel() // a submitted request is executed even if its context ends
			}
			close(release)
			all.Wait()
			if got := fmt.Sprint(batches); got != "[[1] [5 4 1] [25] [6] [5 2 1 1] [1]]" {
				t.Errorf("batches %s", got)
			}
		})
	}
}

// A parallel group executes as many batches at the same time as its limit allows, and no more.
func TestParallelBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		var running atomic.Int32
		g := batch.New(1, 100, func(_ context.Context, in []int) ([]int, error) {
			running.Add(1)
			defer running.Add(-1)
			<-release
			return in, nil
		}).Parallel(2)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.Run(ctx)
		}()

		var calls sync.WaitGroup
		for v := range 5 {
			calls.Go(func() {
				if got, err := g.Do(t.Context(), v); err != nil || got != v {
					t.Errorf("Do(%d) = %d, %v", v, got, err)
				}
			})
		}
		synctest.Wait()
		if n := running.Load(); n != 2 {
			t.Errorf("%d batches are executed at the same time, want 2", n)
		}
		cancel()
		close(release)
		calls.Wait() // calls that were queued get their results
		<-ended
	})
}

// Parallel batches share the callers: while one batch is executed, the next batch collects the
// calls of the other callers. If one batch had the calls of all callers, the next batch would have
// none.
func TestParallelBatchesShareTheCallers(t *testing.T) {
	t.Parallel()
	const call, pause, callers, rounds = 2 * time.Millisecond, 500 * time.Microsecond, 16, 50
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var batches, calls atomic.Int64
		g := batch.New(64, 100, func(_ context.Context, in []int) ([]int, error) {
			batches.Add(1)
			calls.Add(int64(len(in)))
			<-time.After(call)
			return in, nil
		}).Parallel(2)
		go g.Run(ctx)

		// Each caller pauses between two calls. The pauses are a little different.
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				for range rounds {
					<-time.After(pause + time.Duration(n)*20*time.Microsecond)
					if _, err := g.Do(ctx, n); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if mean := float64(calls.Load()) / float64(batches.Load()); mean < 5 || mean > 10 {
			t.Errorf("a batch has %.1f calls, want about half of the %d callers", mean, callers)
		}
	})
}
