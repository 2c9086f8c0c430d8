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

	"parley/shared/lifecycle"
	"parley/shared/store/pgserver"
)

// command is a program of the cluster.
type command struct {
	path  string
	args  []string
	env   []string // beside this process's environment
	log   string   // file of its output, appended to
	ready string   // a piece of what it writes once it is ready
}

// launch starts the command in a session of its own; it dies with this process.
func (c command) launch(ctx context.Context, extra Extra) (*life, error) {
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
	child, err := lifecycle.StartChild(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	var seen atomic.Bool
	return &life{
		pid: child.PID(), done: child.Done(),
		ready: func() bool {
			if !seen.Load() {
				seen.Store(bytes.Contains(readFrom(c.log, from), []byte(c.ready)))
			}
			return seen.Load()
		},
		why: func() string { return fmt.Sprintf("%v: %s", child.Err(), tail(readFrom(c.log, from))) },
		end: func() {
			_ = child.Signal(syscall.SIGKILL) // it can only have ended already
			<-child.Done()
		},
	}, nil
}

// readFrom gives what a file has from an offset on.
func readFrom(path string, from int64) []byte {
	content, err := os.ReadFile(path)
	if err != nil || int64(len(content)) < from {
		return nil
	}
	return content[from:]
}

// tail is the end of a text.
func tail(text []byte) string {
	const limit = 2000
	trimmed := strings.TrimSpace(string(text))
	return trimmed[max(0, len(trimmed)-limit):]
}

// launchPostgres starts the server, and returns once it has recovered.
func launchPostgres(ctx context.Context, config pgserver.Config) (*life, *pgserver.Server, error) {
	server, err := pgserver.Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return &life{
		pid: server.PID(), done: server.Done(), ready: func() bool { return true },
		why: func() string { return fmt.Sprint(server.Err()) },
		end: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			_ = server.Stop(ctx) // its data is thrown away
		},
	}, server, nil
}

func postgresConfig(dir string, port int, settings map[string]string) pgserver.Config {
	return pgserver.Config{Dir: dir, Port: port, Log: zerolog.Nop(), Settings: settings}
}
