package lifecycle

import (
	"errors"
	"fmt"
	"os"
)

// ErrEnded means that a component returned without an error before it was stopped.
var ErrEnded = errors.New("exited unexpectedly")

// ErrLocked means that another process holds the lock file.
var ErrLocked = errors.New("locked by another process")

// LockedError is the error of LockFile if another process holds the lock file. It wraps ErrLocked.
type LockedError struct {
	Path      string
	ProcessID string // empty: unknown
}

// Error returns the path and the holder of the lock file.
func (e *LockedError) Error() string { return e.Path + ": locked by " + e.Holder() }

// Holder names the process that holds the lock file.
func (e *LockedError) Holder() string {
	if e.ProcessID == "" {
		return "another process"
	}
	return "process " + e.ProcessID
}

// Unwrap returns ErrLocked.
func (*LockedError) Unwrap() error { return ErrLocked }

// PanicError is a panic of a component, with the stack of its goroutine.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// SignalError is the cause of a context that a signal has cancelled.
type SignalError struct{ Signal os.Signal }

// Error returns the name of the signal.
func (e *SignalError) Error() string { return "received " + e.Signal.String() }
