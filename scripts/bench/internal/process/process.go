// Package process runs the processes that the bench measures, and reads their resource usage.
//
// A Process runs until the bench stops it. A Group contains the processes of one of the services
// that the bench compares. These services share one PostgreSQL and one nats-server, the Servers, so
// that none has better servers than another. PostgreSQL has the settings of Parley's own private
// server (shared/store/pgserver), with fsync and synchronous_commit on. The nats-server has its
// default settings and stores streams on disk.
//
// CPU times, memory and open files are read from /proc. On a system without /proc, CPU times are
// zero and Memory returns an error.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"parley/shared/lifecycle/childproc"
)

// patience is the time between SIGTERM and SIGKILL.
const patience = 10 * time.Second

// Process is a server that the bench has started. It is killed if the bench dies.
type Process struct {
	*childproc.Process

	Name string
}

// Start starts a program with the given environment variables, PATH and HOME, and adds the process
// to the group. Its log file in logsDir is named after the program. Start does not wait until the
// process is ready. The process does not receive the Ctrl-C of a terminal. The bench receives it and
// stops all processes in order.
func (g *Group) Start(ctx context.Context, program childproc.Program, logsDir string, env map[string]string) (*Process, error) {
	program.Log = filepath.Join(logsDir, program.Name+".log")
	program.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for name, value := range env {
		program.Env = append(program.Env, name+"="+value)
	}
	started, err := program.Start(ctx)
	if err != nil {
		return nil, err
	}
	p := &Process{started, program.Name}
	g.processes = append(g.processes, p)
	return p, nil
}

// Err returns an error with the end of the log if the process has ended, and otherwise nil.
func (p *Process) Err() error {
	if !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s: process ended: %s", p.Name, p.Why())
}

// AwaitOK waits until a GET request for the URL returns 200. It returns an error if ctx or the
// process ends first.
func (p *Process) AwaitOK(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", p.Name, err)
	}
	return p.AwaitReady(ctx, func() bool {
		res, err := client.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close() // only the status is of interest
		return res.StatusCode == http.StatusOK
	})
}

// Stop terminates the process and waits until it has ended. A process that does not end within
// patience is killed. Stop returns an error if the process had already ended.
func (p *Process) Stop() error {
	if p.Ended() {
		return p.Err()
	}
	return p.Process.Stop(time.After(patience))
}

// Group contains the processes of one service that the bench measures. The zero value is empty. It
// is not safe for concurrent use.
type Group struct {
	processes []*Process
}

// End stops a process and removes it from the group.
func (g *Group) End(p *Process) error {
	g.processes = slices.DeleteFunc(g.processes, func(other *Process) bool { return other == p })
	return p.Stop()
}

// CPU returns the CPU time of each process, by name.
func (g *Group) CPU() (map[string]time.Duration, error) {
	out := make(map[string]time.Duration, len(g.processes))
	for _, p := range g.processes {
		used, err := CPU(p.PID())
		if err != nil {
			return nil, err
		}
		out[p.Name] = used
	}
	return out, nil
}

// Processes returns the processes in the order in which they were started.
func (g *Group) Processes() []*Process { return g.processes }

// Err returns an error for each process that ended without being stopped.
func (g *Group) Err() error {
	var errs []error
	for _, p := range g.processes {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// Stop stops all processes, the last one first.
func (g *Group) Stop() error {
	var errs []error
	for _, p := range slices.Backward(g.processes) {
		errs = append(errs, p.Stop())
	}
	g.processes = nil
	return errors.Join(errs...)
}
