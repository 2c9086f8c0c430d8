package lifecycle

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process started by StartChild.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// StartChild starts cmd so that the system sends it onDeath when this process dies, even
// by SIGKILL (on Linux; elsewhere the child must be found again by its own record).
// The caller's other settings in cmd.SysProcAttr are kept.
func StartChild(cmd *exec.Cmd, onDeath syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	setDeathSignal(cmd.SysProcAttr, onDeath)
	child := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go child.keep(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return child, nil
}

// keep starts the process and waits for it on one thread. Linux ties the death signal to
// the thread that forked, not to the process: were the goroutine free to move, the
// runtime could end that thread and the child would be signalled for no reason.
func (c *Child) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// PID is the process's id; it is not given to another process before Done is closed.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended and was waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err is nil while the process runs and after it ended with status 0, else what
// exec.Cmd.Wait returned.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Ended tells whether the process is over.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process alone; once it has ended that is no error.
func (c *Child) Signal(signal syscall.Signal) error {
	err := c.cmd.Process.Signal(signal)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
