package host

import (
	"context"
	"runtime"
	"sync"
)

// Thread is an operating system thread that starts sandboxes. A child that is set to die with its
// parent (PR_SET_PDEATHSIG) dies with the thread that created it, not with the process. Go may end
// threads at any time, but a Thread lives until End.
type Thread struct {
	work chan func()
	gone chan struct{}
	end  sync.Once
}

// NewThread starts a Thread.
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

// Do runs f on the thread, after the functions of earlier calls, and returns f's error. If ctx ends
// before f begins, Do returns without waiting. Do must not be called after End.
func (t *Thread) Do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	// Once f has begun, Do waits for its result even if ctx ends, because f may start a process.
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends the thread, and thereby all processes that the thread has started. It may be called more
// than once.
func (t *Thread) End() {
	t.end.Do(func() { close(t.work) })
	<-t.gone
}
