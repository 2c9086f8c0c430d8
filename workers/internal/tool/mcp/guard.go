package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

// errPanic replaces a panic of the MCP client.
var errPanic = errors.New("panic")

// guard calls f and converts a panic to errPanic. It logs the type of the panic but not its text.
// guard is for goroutines in which panics would otherwise crash the tool worker.
func guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log := zerolog.Ctx(ctx).Error().Str("panic", fmt.Sprintf("%T", cause)) // the panic's text may contain secrets
			log.Bytes("stack", debug.Stack()).Msg("MCP client panicked")
			err = errPanic
		}
	}()
	return f()
}
