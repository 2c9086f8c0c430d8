package host

import (
	"context"
	"runtime"
	"sync"
)

// Thread is a thread of the operating system on which sandboxes are started. To the kernel, a child that is to die with its parent
// dies with the thread that made it (PR_SET_PDEATHSIG), not with the process, and Go ends threads when it likes; this one lives
// until it is told to end.
type Thread struct {
	work chan func()
	gone chan struct{}
	end  sync.Once
}

// NewThread starts one.
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

// Do runs f on the thread, when those before it are done, and returns what it returns. ctx is of the waiting alone. It must not be
// called after End.
func (t *Thread) Do(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	result := make(chan error, 1)
	select {
	case t.work <- func() { result <- f() }:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End ends the thread, and whatever it has started that lives. It may be called again.
func (t *Thread) End() {
	t.end.Do(func() { close(t.work) })
	<-t.gone
}
