// Package childproc starts processes that, on Linux, do not outlive this process. A Process is such
// a process whose output goes to a log file.
//
// It is separate from package lifecycle, which most packages import: CI uses no cached test results
// of packages that can start processes; see scripts/cacheable.sh.
package childproc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a process started by Start.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start starts cmd. On Linux the kernel sends onDeath to the child when this process dies,
// even by SIGKILL. On other systems the child continues, so the caller must find and stop it later.
// Other settings in cmd.SysProcAttr are kept.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	setDeathSignal(cmd.SysProcAttr, onDeath)

	// The goroutine keep starts the process, reports the result, and then waits for the process.
	child := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go child.keep(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return child, nil
}

// keep starts the process and waits for it on one locked thread. Linux sends the death signal when
// the forking thread ends, not when the process ends. If the goroutine were not locked to the
// thread, the runtime might end that thread, and the child would get the signal.
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

// PID returns the process's id. The system does not reuse the id before Done is closed.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and has been reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns nil while the process runs and after it exited with status 0, otherwise the error
// of exec.Cmd.Wait.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Ended reports whether the process has ended.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process. It returns nil if the process has ended.
func (c *Child) Signal(signal syscall.Signal) error {
	err := c.cmd.Process.Signal(signal)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
