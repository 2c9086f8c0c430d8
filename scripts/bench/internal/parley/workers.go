package parley

import (
	"context"
	"fmt"
	"maps"

	"parley/scripts/bench/internal/process"
)

const (
	ingressName = "ingress"
	metricsPath = "/metrics"
)

// SetWorkers starts or ends worker processes until there are n; those that it has started are ready.
func (p *Parley) SetWorkers(ctx context.Context, n int) error {
	for len(p.workers) > n {
		last := p.workers[len(p.workers)-1]
		p.workers = p.workers[:len(p.workers)-1]
		if err := p.End(last); err != nil {
			return err
		}
	}
	for len(p.workers) < n {
		if err := p.startWorker(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startWorker starts one more: the first is worker, the next worker-2.
func (p *Parley) startWorker(ctx context.Context) error {
	name := "worker"
	if n := len(p.workers) + 1; n > 1 {
		name = fmt.Sprintf("worker-%d", n)
	}
	port, err := process.FreePort(ctx)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	env := maps.Clone(p.env)
	env["METRICS_ADDR"] = address
	worker, err := p.Group.Start(ctx, process.Config{
		Name: name, Path: p.config.Binaries.Worker, Args: []string{"--roles=" + p.config.Roles}, Env: env, LogsDir: p.config.LogsDir,
	})
	if err != nil {
		return err
	}
	p.workers = append(p.workers, worker)
	p.metrics[name] = "http://" + address + metricsPath
	return worker.AwaitOK(ctx, "http://"+address+"/readyz")
}
