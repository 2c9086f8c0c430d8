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

// guard calls f and converts a panic into an error. It is used in goroutines in which the tool
// worker does not recover panics.
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
