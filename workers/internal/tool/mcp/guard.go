package mcp

import (
	"context"

	"github.com/rs/zerolog"

	"parley/shared/contain"
)

// guard calls f and converts a panic to an error. It is for goroutines in which panics would
// otherwise crash the tool worker.
func guard(ctx context.Context, f func() error) (err error) {
	defer contain.Panic(&err, zerolog.Ctx(ctx), "MCP client panicked")
	return f()
}
