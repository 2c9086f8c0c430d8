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
	replyTime    = 2 * time.Second // part of a call's time that is reserved for storing files and sending the reply
	minTime      = time.Second     // shortest time for which a program is started
	queueForSlot = 8               // number of calls that may wait, for each slot
)

// Interpreter runs programs, each in its own sandbox. It is safe for concurrent use. If a program
// fails, Run returns its outcome without an error. If ctx ends, the program is killed.
type Interpreter interface {
	Run(ctx context.Context, p python.Program) (python.Outcome, error)
}

// Config contains a backend's settings.
type Config struct {
	Limits sandbox.Limits // limits of one program
	Slots  int            // number of programs that run simultaneously
	Queue  int            // number of calls that may wait for a slot; 0 means eight for each slot
}

// Backend executes calls of codeExecution. It is safe for concurrent use. Each tool worker with a
// sandbox has one Backend.
type Backend struct {
	interpreter Interpreter
	cfg         Config
}

// New creates a backend. A number of slots below 1 becomes 1. The backend does not close the
// interpreter.
func New(interpreter Interpreter, cfg Config) *Backend {
	cfg.Slots = max(cfg.Slots, 1)
	cfg.Queue = cmp.Or(cfg.Queue, queueForSlot*cfg.Slots)
	return &Backend{interpreter: interpreter, cfg: cfg}
}

// Kind returns the kind codeExecution.
func (b *Backend) Kind() string { return contract.ToolCodeExecution }

// Serving returns how many calls are executed simultaneously, and how many may wait.
func (b *Backend) Serving() (slots, queue int) { return b.cfg.Slots, b.cfg.Queue }

// Call runs a program and returns its output. If the program fails, the error is a *tool.Error that
// contains the output.
//
// A failure of the sandbox or of the store is retryable. tool.ErrStale means that the run belongs
// to another attempt. Stored files replace those of an earlier attempt at the same call.
func (b *Backend) Call(ctx context.Context, req tool.Request) (tool.Result, error) {
	options := req.Config.Tools.CodeExecution
	// The caller has already checked that the tool is enabled, but a tool worker does not trust its
	// callers.
	if options == nil || !options.Enabled {
		return tool.Result{}, mistake("The agent is not allowed to run code.")
	}

	args, err := readArguments(req.Call.Arguments)
	if err != nil {
		return tool.Result{}, err
	}

	// Reading the files takes part of the call's time, so it happens before the program's time
	// limit is computed.
	folder, err := b.fill(ctx, req, args.Files, options.KeepFiles)
	if err != nil {
		return tool.Result{}, unreachable(ctx, "The files of the session are temporarily unavailable.", err)
	}

	// Reading files may have used up most of the time. The program is started only if enough time
	// is left.
	wall, err := b.wall(ctx)
	if err != nil {
		return tool.Result{}, err
	}

	outcome, err := b.interpreter.Run(ctx, python.Program{Code: args.Code, Files: folder.files, Wall: wall})
	if err != nil {
		return tool.Result{}, unreachable(ctx, "The sandbox is temporarily unavailable.", err)
	}

	// A program may have written useful files before it failed, so files are stored in either case.
	s := outputBuilder{
		limits: b.cfg.Limits, code: args.Code, wall: wall, outcome: outcome, found: folder.files,
		documentNames: folder.documentNames, notes: folder.notes,
	}
	if err := s.keep(ctx, req, options.KeepFiles); err != nil {
		return tool.Result{}, unreachable(ctx, "The files of the call cannot be stored at the moment.", err)
	}
	return s.result()
}

// wall returns the program's limit on elapsed time: the configured limit or the remaining time of
// the call, whichever is shorter. It fails with a *tool.Error if less than minTime is left.
func (b *Backend) wall(ctx context.Context) (time.Duration, error) {
	wall := b.cfg.Limits.Wall
	deadline, ok := ctx.Deadline()
	if !ok {
		return wall, nil
	}

	left := time.Until(deadline) - replyTime
	if left < minTime {
		return 0, &tool.Error{Message: "No sandbox was free in time; try again later.", NotSent: true}
	}

	// The program must end early enough that its output can still be sent.
	if wall == 0 || left < wall {
		wall = left
	}
	return wall, nil
}

// unreachable converts an error to a retryable error with a message for the model. An error that
// already has such a message is returned unchanged.
func unreachable(ctx context.Context, message string, err error) error {
	var public *tool.Error
	switch {
	// Errors of these kinds already state the cause.
	case errors.As(err, &public), errors.Is(err, tool.ErrStale):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("running code: %w", ctx.Err())
	default:
		return &tool.Error{Message: message, Retryable: true, Err: err}
	}
}
