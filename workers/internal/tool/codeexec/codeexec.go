package codeexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"parley/shared/contract"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
	"parley/workers/internal/tool"
)

const (
	afterwards   = 2 * time.Second // of a call's time, to keep its files and answer
	leastTime    = time.Second     // that it makes sense to begin with
	queueForSlot = 8               // calls that may wait for each one that is carried out
)

// Interpreter runs programs, each in a sandbox of its own; safe for concurrent use. A program that fails is no error. The
// end of ctx ends the program.
type Interpreter interface {
	Run(ctx context.Context, p python.Program) (python.Outcome, error)
}

// Config says how much a worker takes on.
type Config struct {
	Limits sandbox.Limits // of the interpreter
	Slots  int            // programs that run at a time
	Queue  int            // calls that wait for one of these; 0: eight for each
}

// Backend carries calls out; safe for concurrent use.
type Backend struct {
	interpreter Interpreter
	cfg         Config
}

// New makes a backend.
func New(interpreter Interpreter, cfg Config) *Backend {
	cfg.Slots = max(cfg.Slots, 1)
	cfg.Queue = cmp.Or(cfg.Queue, queueForSlot*cfg.Slots)
	return &Backend{interpreter: interpreter, cfg: cfg}
}

// Kind says which calls are for this backend.
func (b *Backend) Kind() string { return contract.ToolCodeExecution }

// Serving says how many calls are carried out at a time, and how many may wait.
func (b *Backend) Serving() (slots, queue int) { return b.cfg.Slots, b.cfg.Queue }

// Call runs a program and gives what came of it; of one that failed too, as a *tool.Error with all that there is to show.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	options := req.Config.Tools.CodeExecution
	if options == nil || !options.Enabled {
		return tool.Result{}, mistake("The agent is not allowed to run code.")
	}
	args, err := readArguments(req.Call.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	folder, err := b.fill(ctx, req, args.Files, options.KeepFiles)
	if err != nil {
		return tool.Result{}, unreachable(ctx, "The files of the session are temporarily unavailable.", err)
	}
	wall, err := b.wall(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	outcome, err := b.interpreter.Run(ctx, python.Program{Code: args.Code, Files: folder.files, Wall: wall})
	if err != nil {
		return tool.Result{}, unreachable(ctx, "The sandbox is temporarily unavailable.", err)
	}
	s := shaping{limits: b.cfg.Limits, code: args.Code, wall: wall, outcome: outcome, found: folder.files, borrowed: folder.borrowed}
	s.notes = folder.notes
	if err := s.keep(ctx, req, options.KeepFiles); err != nil {
		return tool.Result{}, unreachable(ctx, "The files of the call cannot be stored at the moment.", err)
	}
	return s.result()
}

// wall is how long a program may run: as long as any, or what is left of its call's time.
func (b *Backend) wall(ctx context.Context) (time.Duration, error) {
	wall := b.cfg.Limits.Wall
	deadline, ok := ctx.Deadline()
	if !ok {
		return wall, nil
	}
	left := time.Until(deadline) - afterwards
	if left < leastTime {
		return 0, &tool.Error{Message: "No sandbox was free in time; try again later.", NotSent: true}
	}
	if wall == 0 || left < wall {
		wall = left
	}
	return wall, nil
}

// unreachable is a call that cannot go on for a reason that may pass; what says more itself stays as it is.
func unreachable(ctx context.Context, message string, err error) error {
	var told *tool.Error
	switch {
	case errors.As(err, &told), errors.Is(err, tool.ErrStale):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("running code: %w", ctx.Err())
	default:
		return &tool.Error{Message: message, Retryable: true, Err: err}
	}
}
