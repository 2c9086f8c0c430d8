package gvisor

import "runtime"

// thread is an operating system's thread on which sandboxes are started. To the kernel, a child dies with the thread that made it
// (PR_SET_PDEATHSIG), not with the process, and Go ends threads when it likes; this one lives until it is told to end.
type thread struct {
	work chan func()
	gone chan struct{}
}

func newThread() *thread {
	t := &thread{work: make(chan func()), gone: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		defer close(t.gone)
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f on the thread. It must not be called after end.
func (t *thread) do(f func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// end ends the thread, and whatever it has started that lives.
func (t *thread) end() {
	close(t.work)
	<-t.gone
}
