package host

import (
	"context"
	"runtime"
	"sync"
)

// Thread is an operating system thread that starts sandboxes. A child that is set to die with its
// parent (PR_SET_PDEATHSIG) dies with the thread that created it, not with the process, and Go may
// end threads at any time. This thread lives until End.
type Thread struct {
	work chan func()
	gone chan struct{}
	end  sync.Once
}

// NewThread starts a thread.
func NewThread() *Thread {
	t := &Thread{work: make(chan func()), gone: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		defer close(t.gone)
		for f := range t.work {
			f()
		}
	}()
	return t
}

// Do runs f on the thread, after earlier calls, and returns f's error. If ctx ends first, Do
// returns without waiting. Do must not be called after End.
func (t *Thread) Do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	// Once the thread has taken f, Do waits for the result even if ctx ends, because f may start a
	// process.
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends the thread, and with it all processes that it has started. It may be called more than
// once.
func (t *Thread) End() {
	t.end.Do(func() { close(t.work) })
	<-t.gone
}
