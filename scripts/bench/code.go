package main

import (
	"context"
	"errors"
	"time"

	calls "parley/scripts/bench/internal/code"
	"parley/scripts/bench/internal/report"
)

// codeFlags say how calls of codeExecution are measured.
type codeFlags struct {
	CodeCalls  int           `name:"code-calls" default:"60" help:"Calls of codeExecution of each side in a round."`
	CodeRounds int           `name:"code-rounds" default:"3" help:"Rounds of that, the sides in turn."`
	CodePause  time.Duration `name:"code-pause" default:"50ms" help:"Time between two calls."`
}

func (c *codeFlags) check() error {
	if c.CodeCalls < 1 || c.CodeRounds < 1 || c.CodePause < 0 {
		return errors.New("--code-calls and --code-rounds must be above zero, --code-pause not below")
	}
	return nil
}

func (c *codeFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "code", r, func(on stage) error { return c.measureOn(ctx, on, r) })
}

func (c *codeFlags) measureOn(ctx context.Context, on stage, r *report.Report) error {
	dsn, err := on.servers.Database(ctx, "code")
	if err != nil {
		return err
	}
	measured, err := calls.Run(ctx, calls.Config{
		Binaries: on.binaries, DatabaseURL: dsn, NATSURL: on.servers.NATSURL(), LogsDir: on.dir,
		Calls: c.CodeCalls, Rounds: c.CodeRounds, Pause: c.CodePause,
		Progress: func(round int, side string, p50, p99 float64) {
			sayf("codeExecution, round %d of %d: %-5s p50 %.1f ms, p99 %.1f ms", round, c.CodeRounds, side, p50, p99)
		},
	})
	if errors.Is(err, calls.ErrNoBubblewrap) {
		sayf("codeExecution is not measured: %v", err)
		return nil
	}
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	r.AddCode(measured)
	return nil
}

// code measures calls of codeExecution alone.
type code struct {
	options
	codeFlags
}

// Validate is called by kong.
func (c *code) Validate() error { return errors.Join(c.options.check(), c.codeFlags.check()) }

// Run measures and writes the report.
func (c *code) Run(ctx context.Context) error { return c.options.run(ctx, &c.codeFlags) }
