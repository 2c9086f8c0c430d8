package childproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Program describes a program to start. Its output goes to a log file.
type Program struct {
	Name string // name in messages
	Path string
	Args []string
	Env  []string // the complete environment
	Dir  string   // the working directory; empty: that of this process
	Log  string   // path of the log file, to which the output is appended
}

// Process is a running Program.
type Process struct {
	*Child

	program Program
	from    int64 // offset in the log file at which the output of this process begins
}

// Start starts the program in a new session, so that Ctrl-C in a terminal reaches only this
// process. On Linux, the program is killed if this process dies for any reason. Start does not wait
// until the program is ready.
func (p Program) Start(ctx context.Context) (*Process, error) {
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	defer log.Close() // the program has its own descriptor of the log file

	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("measuring log: %w", err)
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.Path, p.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	return &Process{Child: child, program: p, from: from}, nil
}

// AwaitReady calls ready until it returns true. If the process or ctx ends before that, AwaitReady
// returns an error with the end of the output.
func (p *Process) AwaitReady(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("%s exited: %s", p.program.Name, p.Why())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", p.program.Name, context.Cause(ctx), p.tail())
		}
	}
	return nil
}

// Kill sends SIGKILL and waits until the process has ended.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Done()
	return nil
}

// Stop sends SIGTERM and waits until the process has ended. If the channel late receives a value
// first, Stop kills the process and returns an error.
func (p *Process) Stop(late <-chan time.Time) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-late:
		return errors.Join(fmt.Errorf("%s did not stop in time and was killed", p.program.Name), p.Kill())
	}
}

// Why describes how the process ended. It includes the end of the output.
func (p *Process) Why() string {
	how := "status 0"
	if err := p.Err(); err != nil {
		how = err.Error()
	}
	return how + ": " + p.tail()
}

// Output returns the text that the process has written since its start, or nil if the log cannot be
// read.
func (p *Process) Output() []byte {
	log, err := os.Open(p.program.Log)
	if err != nil {
		return nil
	}
	defer log.Close()
	text, err := io.ReadAll(io.NewSectionReader(log, p.from, 1<<62))
	if err != nil {
		return nil
	}
	return text
}

// tail returns the end of the output, for messages.
func (p *Process) tail() string {
	const limit = 2000
	text := bytes.TrimSpace(p.Output())
	return string(text[max(0, len(text)-limit):])
}
