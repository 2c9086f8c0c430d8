// Package contain converts panics to errors. It is for goroutines and calls in a process that must
// survive their panics, because it also does other work.
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

// ErrPanic is the error to which Panic converts a panic.
var ErrPanic = errors.New("panic")

// Panic recovers from a panic, logs its type and stack with the given message, and sets err to
// ErrPanic. It must be called directly by defer. It does not log the value of the panic, because
// the value may contain secrets or what people and models have written.
func Panic(err *error, log *zerolog.Logger, message string) {
	if cause := recover(); cause != nil {
		log.Error().Str("panic", fmt.Sprintf("%T", cause)).Bytes("stack", debug.Stack()).Msg(message)
		*err = ErrPanic
	}
}
