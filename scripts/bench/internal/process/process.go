package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"parley/shared/lifecycle"
	"parley/shared/lifecycle/childproc"
)

const (
	pollEvery = 10 * time.Millisecond
	patience  = 10 * time.Second // time between SIGTERM and SIGKILL
	tailBytes = 2000
)

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
	Name  string
	child *childproc.Child
	log   string
}

// Start starts a process and adds it to the group. It does not wait until the process is ready.
func (g *Group) Start(ctx context.Context, c Config) (*Process, error) {
	path := filepath.Join(c.LogsDir, c.Name+".log")
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", c.Name, err)
	}
	defer log.Close() // the process has its own descriptor of the log file

	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Path, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	// The process gets its own process group, so it does not receive the Ctrl-C of a terminal. The
	// bench receives it and stops all processes in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child, err := childproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	p := &Process{Name: c.Name, child: child, log: path}
	g.processes = append(g.processes, p)
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.child.PID() }

// Err returns an error with the end of the log if the process has ended, and otherwise nil.
func (p *Process) Err() error {
	if !p.child.Ended() {
		return nil
	}
	how := "with status 0"
	if err := p.child.Err(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s: process ended: %s\n%s", p.Name, how, p.tail())
}

// tail returns the end of the process's log.
func (p *Process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(raw[max(0, len(raw)-tailBytes):]))
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

	for {
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close() // only the status is of interest
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if p.child.Ended() {
			return p.Err()
		}
		if err := lifecycle.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting for %s: %w\n%s", p.Name, err, p.tail())
		}
	}
}

// Stop terminates the process and waits until it has ended. A process that does not end within
// patience is killed. Stop returns an error if the process had already ended.
func (p *Process) Stop() error {
	if p.child.Ended() {
		return p.Err()
	}

	err := p.child.Signal(syscall.SIGTERM)
	late := time.NewTimer(patience)
	defer late.Stop()

	select {
	case <-p.child.Done():
		return err
	case <-late.C:
	}

	err = errors.Join(err, fmt.Errorf("%s did not stop within %s and was killed", p.Name, patience), p.child.Signal(syscall.SIGKILL))
	<-p.child.Done()
	return err
}

// Ports of the servers, below the range of ephemeral ports, which starts at 32768. An outgoing
// connection could take an ephemeral port before a server listens on it. Tests use other ports,
// below these.
const (
	firstPort = 24000
	portCount = 8000
)

// FreePort returns a TCP port on the loopback interface on which no process listens.
func FreePort(ctx context.Context) (int, error) {
	var failure error
	for range 100 {
		port := firstPort + rand.N(portCount) //nolint:gosec // G404: not a secret
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			err = listener.Close()
		}
		if err == nil {
			return port, nil
		}
		failure = err
	}
	return 0, fmt.Errorf("looking for a free port: %w", failure)
}
