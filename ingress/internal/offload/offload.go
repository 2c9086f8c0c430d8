package offload

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
)

// maxIdle is the maximum number of goroutines that are kept for later calls.
const maxIdle = 64

// The pool has no goroutines at first. Do starts a goroutine if none is idle.
var (
	calls = make(chan *call) // unbuffered, so that a call is sent only to an idle goroutine
	idle  atomic.Int64       // number of idle goroutines
)

// call is one function to run.
type call struct {
	f      func()
	done   chan struct{} // closed after f has returned or panicked
	reason any           // value with which f panicked; nil: it did not panic
}

// Do calls f on a goroutine of the pool and waits until f returns. It never waits for a free
// goroutine. If f panics, Do panics too, with an error that contains the value and the stack of f.
// The value http.ErrAbortHandler is passed on unchanged.
func Do(f func()) {
	c := &call{f: f, done: make(chan struct{})}
	select {
	case calls <- c:
	default: // no goroutine is idle
		go serve(c)
	}
	<-c.done
	if c.reason != nil {
		panic(c.reason)
	}
}

// serve runs calls. It returns when maxIdle other goroutines are idle.
func serve(c *call) {
	for {
		c.run()
		if idle.Add(1) > maxIdle {
			idle.Add(-1)
			return
		}
		c = <-calls
		idle.Add(-1)
	}
}

// run calls the function and recovers from its panic.
func (c *call) run() {
	defer close(c.done)
	defer func() {
		reason := recover()
		if err, ok := reason.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			c.reason = http.ErrAbortHandler
		} else if reason != nil {
			c.reason = fmt.Errorf("%v\n%s", reason, debug.Stack())
		}
	}()
	c.f()
}
