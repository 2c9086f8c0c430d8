package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

var errPanic = errors.New("panic")

// guard converts a panic into an error. It wraps code that runs in goroutines in which the tool
// worker does not recover panics.
func guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log := zerolog.Ctx(ctx).Error().Str("panic", fmt.Sprintf("%T", cause)) // the text may contain secrets
			log.Bytes("stack", debug.Stack()).Msg("MCP client panicked")
			err = errPanic
		}
	}()
	return f()
}
