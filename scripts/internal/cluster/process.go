package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/lifecycle/childproc"
	"parley/shared/store/pgserver"
)

// command describes a program that the cluster starts.
type command struct {
	path  string
	args  []string
	env   []string // variables in addition to the environment of the test process
	log   string   // path of the log file, to which output is appended
	ready string   // output that signals readiness
}

// launch starts the command in a new session. The child is killed if the test process dies. launch
// does not wait until the command is ready. The field ready of the returned instance is a function
// that reports whether the output contains the text in c.ready.
func (c command) launch(ctx context.Context, extra Extra) (*instance, error) {
	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	defer log.Close()

	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("measuring log: %w", err)
	}

	path := c.path
	if extra.Path != "" {
		path = extra.Path
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, c.args...)
	cmd.Env = append(append(os.Environ(), c.env...), extra.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child, err := childproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}

	var seen atomic.Bool
	return &instance{
		pid: child.PID(), done: child.Done(),
		ready: func() bool {
			if !seen.Load() {
				seen.Store(bytes.Contains(readFrom(c.log, from), []byte(c.ready)))
			}
			return seen.Load()
		},
		why: func() string { return fmt.Sprintf("%v: %s", child.Err(), tail(readFrom(c.log, from))) },
		end: func() {
			_ = child.Signal(syscall.SIGKILL) // an error means that the process has already ended
			<-child.Done()
		},
	}, nil
}

// readFrom returns the content of a file from an offset on.
func readFrom(path string, from int64) []byte {
	content, err := os.ReadFile(path)
	if err != nil || int64(len(content)) < from {
		return nil
	}
	return content[from:]
}

// tail returns the end of a text, for error messages.
func tail(text []byte) string {
	const limit = 2000
	trimmed := strings.TrimSpace(string(text))
	return trimmed[max(0, len(trimmed)-limit):]
}

// launchPostgres starts PostgreSQL and returns when the server has recovered from a crash, if any.
func launchPostgres(ctx context.Context, config pgserver.Config) (*instance, *pgserver.Server, error) {
	server, err := pgserver.Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}

	return &instance{
		pid: server.PID(), done: server.Done(), ready: func() bool { return true },
		why: func() string { return fmt.Sprint(server.Err()) },
		end: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			_ = server.Stop(ctx) // its data is deleted anyway
		},
	}, server, nil
}

// postgresConfig configures the server. Commits are synchronous, which is the default of package
// pgserver.
func postgresConfig(dir string, port int, settings map[string]string) pgserver.Config {
	return pgserver.Config{Dir: dir, Port: port, Log: zerolog.Nop(), Settings: settings}
}
