package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

var errPanic = errors.New("panic")

// guard makes a panic an error. It stands around whatever runs where the tool worker would not catch it: the process
// serves others, too.
func guard(ctx context.Context, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log := zerolog.Ctx(ctx).Error().Str("panic", fmt.Sprintf("%T", cause)) // its text may hold anything
			log.Bytes("stack", debug.Stack()).Msg("MCP client panicked")
			err = errPanic
		}
	}()
	return f()
}
