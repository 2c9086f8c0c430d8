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
