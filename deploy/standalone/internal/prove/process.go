package prove

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"parley/shared/lifecycle/childproc"
)

// readyWithin bounds the time until a process is ready. It allows for a slow or busy machine.
const readyWithin = 90 * time.Second

// command describes a process of the service under test.
type command struct {
	childproc.Program

	ready string // output that signals readiness; empty if the command ends by itself
}

// process is a command that was started. It implements instance.
type process struct{ *childproc.Process }

// launch starts the command and returns when its output contains the text in the field ready. If
// the process ends before that, or is not ready within readyWithin, launch returns an error with
// the end of the output.
func (c command) launch(ctx context.Context) (instance, error) {
	started, err := c.Start(ctx)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	p := process{started}
	err = p.AwaitReady(ctx, func() bool { return bytes.Contains(p.Output(), []byte(c.ready)) })
	if err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

// run starts the command and waits until it has ended. A status other than 0 is an error. When ctx
// ends, run kills the process.
func (c command) run(ctx context.Context) error {
	started, err := c.Start(ctx)
	if err != nil {
		return err
	}

	p := process{started}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.End()
		return context.Cause(ctx)
	}

	if p.Err() != nil {
		return fmt.Errorf("%s exited: %s", c.Name, p.Why())
	}
	return nil
}

// End kills the process. A graceful shutdown is not necessary, because nothing needs its data.
func (p process) End() { _ = p.Kill() } // Kill fails only if the signal cannot be sent, which does not happen to a child
