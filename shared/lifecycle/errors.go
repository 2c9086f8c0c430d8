package lifecycle

import (
	"errors"
	"fmt"
	"os"
)

// ErrEnded is returned when a component came back without an error although nobody had
// asked it to stop.
var ErrEnded = errors.New("exited unexpectedly")

// ErrLocked is returned by LockFile while another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// PanicError is a panic of one component, with the stack of the goroutine it came from.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the value; the stack is left to whoever logs the error.
func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e *SignalError) Error() string { return "received " + e.Signal.String() }
