package floor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
)

const startTimeout = 30 * time.Second

// Config says how to start the two processes and what to start them on. The environment gives them ADDRESS,
// DATABASE_URL and NATS_URL.
type Config struct {
	Command     string // a binary that calls RunIngress on the argument floor-ingress, and RunWorker on floor-worker
	DatabaseURL string
	NATSURL     string
	LogsDir     string
}

// Floor is a running floor.
type Floor struct {
	process.Group
	address string
}

// Start starts both processes and returns once requests may be sent.
func Start(ctx context.Context, c Config) (*Floor, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	f := &Floor{address: fmt.Sprintf("127.0.0.1:%d", port)}
	if err := f.start(ctx, c); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

func (f *Floor) start(ctx context.Context, c Config) error {
	env := map[string]string{"ADDRESS": f.address, "DATABASE_URL": c.DatabaseURL, "NATS_URL": c.NATSURL}
	ingress, err := f.Group.Start(ctx, process.Config{
		Name: "floor-ingress", Path: c.Command, Args: []string{"floor-ingress"}, Env: env, LogsDir: c.LogsDir,
	})
	if err != nil {
		return err
	}
	_, err = f.Group.Start(ctx, process.Config{
		Name: "floor-worker", Path: c.Command, Args: []string{"floor-worker"}, Env: env, LogsDir: c.LogsDir,
	})
	if err != nil {
		return err
	}
	return ingress.AwaitOK(ctx, "http://"+f.address+ReadyPath)
}

// Load is a request to the floor; how long and by how many is the caller's to say.
func (f *Floor) Load() load.Spec {
	return load.Spec{Address: f.address, Path: Path, Body: load.Body("ag_floor"), Expect: `"status":"completed"`}
}

// Parked is a running process of requests that wait.
type Parked struct {
	process.Group
	address string
}

// StartParked starts it from a binary that calls RunParked on the argument floor-parked, with ADDRESS in its environment.
func StartParked(ctx context.Context, command, logsDir string) (*Parked, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	p := &Parked{address: fmt.Sprintf("127.0.0.1:%d", port)}
	parked, err := p.Group.Start(ctx, process.Config{
		Name: "floor-parked", Path: command, Args: []string{"floor-parked"}, Env: map[string]string{"ADDRESS": p.address}, LogsDir: logsDir,
	})
	if err == nil {
		err = parked.AwaitOK(ctx, "http://"+p.address+ReadyPath)
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Address is where it listens.
func (p *Parked) Address() string { return p.address }
