package prove

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"parley/shared/lifecycle/childproc"
)

// readyWithin bounds the time until a process is ready. It allows for a slow or busy machine.
const readyWithin = 90 * time.Second

// readyPoll is the interval at which the output of a starting process is checked.
const readyPoll = 10 * time.Millisecond

// command describes a process of the service under test.
type command struct {
	path  string
	args  []string
	env   []string // the complete environment
	dir   string   // the working directory
	log   string   // path of the log file to which the process's output is appended
	ready string   // output that signals readiness; empty if the command ends by itself
}

// process is a command that was started. It implements instance.
type process struct {
	command command
	child   *childproc.Child
	from    int64 // offset in the log file at which the output of this process begins
}

// start starts the command in a new session, so that Ctrl-C in a terminal reaches only this
// process. The child is killed if this process dies for any reason.
func (c command) start(ctx context.Context) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(c.log), 0o700); err != nil {
		return nil, fmt.Errorf("creating log directory: %w", err)
	}

	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	defer log.Close()

	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("measuring log: %w", err)
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.path, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child, err := childproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.args[0], err)
	}
	return &process{command: c, child: child, from: from}, nil
}

// launch starts the command and returns when its output contains the text in the field ready. If
// the process ends before that, or is not ready within readyWithin, launch returns an error with
// the end of the output.
func (c command) launch(ctx context.Context) (instance, error) {
	p, err := c.start(ctx)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()

	tick := time.NewTicker(readyPoll)
	defer tick.Stop()

	for {
		if bytes.Contains(p.output(), []byte(c.ready)) {
			return p, nil
		}
		select {
		case <-tick.C:
		case <-p.child.Done():
			return nil, fmt.Errorf("%s exited: %s", c.args[0], p.Why())
		case <-ctx.Done():
			p.End()
			return nil, fmt.Errorf("waiting for %s: %w: %s", c.args[0], context.Cause(ctx), p.tail())
		}
	}
}

// run starts the command and waits until it has ended. A status other than 0 is an error. When ctx
// ends, run kills the process.
func (c command) run(ctx context.Context) error {
	p, err := c.start(ctx)
	if err != nil {
		return err
	}

	select {
	case <-p.child.Done():
	case <-ctx.Done():
		p.End()
		return context.Cause(ctx)
	}

	if p.child.Err() != nil {
		return fmt.Errorf("%s exited: %s", c.args[0], p.Why())
	}
	return nil
}

// Done is closed when the process has ended.
func (p *process) Done() <-chan struct{} { return p.child.Done() }

// Kill sends SIGKILL and waits until the process has ended.
func (p *process) Kill() error {
	if err := p.child.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.child.Done()
	return nil
}

// End kills the process. A graceful shutdown is not necessary, because nothing needs its data.
func (p *process) End() {
	_ = p.child.Signal(syscall.SIGKILL) // an error means that the process has already ended
	<-p.child.Done()
}

// Why describes how the process ended. It includes the end of the output.
func (p *process) Why() string {
	how := "status 0"
	if err := p.child.Err(); err != nil {
		how = err.Error()
	}
	return how + ": " + p.tail()
}

// output returns the text that the process has written since its start, or nil if the log cannot be
// read.
func (p *process) output() []byte {
	log, err := os.Open(p.command.log)
	if err != nil {
		return nil
	}
	defer log.Close()
	if _, err := log.Seek(p.from, io.SeekStart); err != nil {
		return nil
	}

	text, err := io.ReadAll(log)
	if err != nil {
		return nil
	}
	return text
}

// tail returns the end of the process's output, for error messages.
func (p *process) tail() string {
	const limit = 2000
	text := strings.TrimSpace(string(p.output()))
	return text[max(0, len(text)-limit):]
}
