package cluster

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/lifecycle/childproc"
	"parley/shared/store/pgserver"
)

// runs sets the program that the part runs. Its output signals readiness with the text in the
// argument ready.
func (p *Part) runs(program childproc.Program, ready string) {
	program.Name, program.Log = p.Name, p.log
	p.launch = func(ctx context.Context, extra Extra) (*instance, error) {
		changed := program
		changed.Path = cmp.Or(extra.Path, program.Path)
		changed.Env = slices.Concat(os.Environ(), program.Env, extra.Env)
		started, err := changed.Start(ctx)
		if err != nil {
			return nil, err
		}

		var seen atomic.Bool
		return &instance{
			pid: started.PID(), done: started.Done(), why: started.Why,
			ready: func() bool {
				if !seen.Load() {
					seen.Store(bytes.Contains(started.Output(), []byte(ready)))
				}
				return seen.Load()
			},
			end: func() { _ = started.Kill() }, // Kill fails only if the signal cannot be sent, which does not happen to a child
		}, nil
	}
}

// output returns the output of all processes of the part, or "" if the log cannot be read.
func (p *Part) output() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return string(raw)
}

// problem describes why the part is not ready, for error messages.
func (p *Part) problem() string {
	const limit = 2000
	output := p.output()
	return fmt.Sprintf("%s is not ready: %s\n%s", p.Name, p.History().LastFailure, output[max(0, len(output)-limit):])
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
