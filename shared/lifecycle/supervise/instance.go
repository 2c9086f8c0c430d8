package supervise

import (
	"bytes"
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"parley/shared/lifecycle/childproc"
)

// Instance is one process of a part, from its start to its end.
type Instance struct {
	PID   int
	Done  <-chan struct{} // closed when the process has ended
	Ready func() bool     // reports whether the process is or was ready; also called after the end
	Why   func() string   // describes how the process ended
	End   func()          // stops the process permanently
	Term  syscall.Signal  // the signal that terminates the process gracefully
}

// over reports whether the instance has ended.
func (i *Instance) over() bool {
	select {
	case <-i.Done:
		return true
	default:
		return false
	}
}

// Process starts a program. The program is ready when its output contains the text ready. If within
// is not 0, Process waits until the program is ready, for at most this time.
func Process(ctx context.Context, program childproc.Program, ready string, within time.Duration) (*Instance, error) {
	started, err := program.Start(ctx)
	if err != nil {
		return nil, err
	}

	var seen atomic.Bool
	l := &Instance{
		PID: started.PID(), Done: started.Done(), Why: started.Why, Term: syscall.SIGTERM,
		Ready: func() bool {
			if !seen.Load() {
				seen.Store(bytes.Contains(started.Output(), []byte(ready)))
			}
			return seen.Load()
		},
		End: func() { _ = started.Kill() }, // Kill fails only if the signal cannot be sent, which does not happen to a child
	}
	if within == 0 {
		return l, nil
	}

	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := started.AwaitReady(ctx, l.Ready); err != nil {
		l.End()
		return nil, err
	}
	return l, nil
}
