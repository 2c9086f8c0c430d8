package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"parley/shared/lifecycle/childproc"
)

// patience is the time between SIGTERM and SIGKILL.
const patience = 10 * time.Second

// Config describes the process to start.
type Config struct {
	Name    string // the process's name; its log file is named Name.log
	Path    string
	Args    []string
	Env     map[string]string // environment variables in addition to PATH and HOME
	LogsDir string
}

// Process is a server that the bench has started. It is killed if the bench dies.
type Process struct {
	*childproc.Process

	Name string
}

// Start starts a process and adds it to the group. It does not wait until the process is ready. The
// process has its own session, so it does not receive the Ctrl-C of a terminal. The bench receives
// it and stops all processes in order.
func (g *Group) Start(ctx context.Context, c Config) (*Process, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	program := childproc.Program{Name: c.Name, Path: c.Path, Args: c.Args, Env: env, Log: filepath.Join(c.LogsDir, c.Name+".log")}
	started, err := program.Start(ctx)
	if err != nil {
		return nil, err
	}
	p := &Process{started, c.Name}
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

	err := p.Signal(syscall.SIGTERM)
	late := time.NewTimer(patience)
	defer late.Stop()

	select {
	case <-p.Done():
		return err
	case <-late.C:
	}

	return errors.Join(err, fmt.Errorf("%s did not stop within %s and was killed", p.Name, patience), p.Kill())
}

// FreePort returns a TCP port on the loopback interface on which no process listens.
func FreePort(ctx context.Context) (int, error) {
	ports, err := childproc.FreePorts(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
