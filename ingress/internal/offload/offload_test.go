package offload_test

import (
	"errors"
	"net/http"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"

	"parley/ingress/internal/offload"
)

// deep uses at least n KiB of the stack.
//
//go:noinline
func deep(n int) byte {
	var used [1 << 10]byte
	if n > 0 {
		used[n%len(used)] = deep(n - 1)
	}
	return used[n%len(used)]
}

// A call returns after its function has returned. Calls may be nested and simultaneous.
func TestCallsAreNestedAndSimultaneous(t *testing.T) {
	t.Parallel()
	results := make([]int, 500)
	var callers sync.WaitGroup
	for i := range results {
		callers.Go(func() {
			offload.Do(func() {
				offload.Do(func() { results[i] = i })
				results[i]++
			})
			results[i] *= 2
		})
	}
	callers.Wait()
	for i, got := range results {
		if got != 2*(i+1) {
			t.Fatalf("call %d returned %d", i, got)
		}
	}
}

func TestAPanicReachesTheCaller(t *testing.T) {
	t.Parallel()
	recovered := func(f func()) (reason any) {
		defer func() { reason = recover() }()
		offload.Do(f)
		return nil
	}

	err, ok := recovered(panicking).(error)
	if !ok || !strings.HasPrefix(err.Error(), "broken\n") || !strings.Contains(err.Error(), "offload_test.panicking") {
		t.Errorf("recovered %v", err)
	}
	if err, ok := recovered(func() { panic(http.ErrAbortHandler) }).(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("recovered %v instead of http.ErrAbortHandler", err)
	}

	ran := false
	offload.Do(func() { ran = true })
	if !ran {
		t.Error("no call succeeds after a panic")
	}
}

//go:noinline
func panicking() { panic("broken") }

// The callers' stacks stay small although their functions need large stacks.
func TestCallersKeepSmallStacks(t *testing.T) { //nolint:paralleltest // it reads the stack memory of the whole process
	const (
		callers = 500
		needed  = 64 // KiB of stack that each call needs
	)
	before := stackBytes()
	var called, ended sync.WaitGroup
	release := make(chan struct{})
	for range callers {
		called.Add(1)
		ended.Go(func() {
			offload.Do(func() { deep(needed) })
			called.Done()
			<-release
		})
		called.Wait() // one call at a time, so that all of them use the same goroutine
	}
	after := stackBytes()
	close(release)
	ended.Wait()
	if after > before+callers*needed<<10/2 {
		t.Errorf("%d waiting callers: the stacks grew from %d to %d KiB", callers, before>>10, after>>10)
	}
}

// stackBytes returns the stack memory of the process in bytes.
func stackBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
