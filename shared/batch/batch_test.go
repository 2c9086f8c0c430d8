package batch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"parley/shared/batch"
)

func TestGroupSharesWhileBusyAndWaitsForNobody(t *testing.T) {
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
		synctest.Wait() // the first call goes alone
		for v := 2; v <= 7; v++ {
			ask(v)
		}
		synctest.Wait() // six gather behind it
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
