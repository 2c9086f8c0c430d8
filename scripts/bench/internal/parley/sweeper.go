package parley

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"parley/scripts/bench/internal/process"
)

const sweeperName = "sweeper"

// StartSweeper starts a worker that does nothing but sweep; it is ready when this returns. End ends it. The other workers' Roles must
// leave that to it.
func (p *Parley) StartSweeper(ctx context.Context) (*process.Process, error) {
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	env := maps.Clone(p.env)
	env["METRICS_ADDR"] = address
	sweeper, err := p.Group.Start(ctx, process.Config{
		Name: sweeperName, Path: p.config.Binaries.Worker, Args: []string{"--roles=sweep"}, Env: env, LogsDir: p.config.LogsDir,
	})
	if err != nil {
		return nil, err
	}
	p.metrics[sweeperName] = "http://" + address + metricsPath
	return sweeper, sweeper.AwaitOK(ctx, "http://"+address+"/readyz")
}

// Goroutines is how many a process has, by name.
func (p *Parley) Goroutines(ctx context.Context, name string) (int, error) {
	n, err := metric(ctx, p.metrics[name], "go_goroutines")
	if err != nil {
		return 0, fmt.Errorf("reading the goroutines of %s: %w", name, err)
	}
	return int(n), nil
}

// Runs asks for the newest runs.
func (p *Parley) Runs(limit int) Request {
	return p.request(http.MethodGet, "/api/runs?limit="+strconv.Itoa(limit), nil, nil)
}

// Run asks for one run.
func (p *Parley) Run(id string) Request {
	return p.request(http.MethodGet, "/api/runs?id="+url.QueryEscape(id), nil, nil)
}
