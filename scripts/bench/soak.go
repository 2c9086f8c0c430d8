package main

import (
	"context"
	"errors"
	"fmt"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
)

// soak measures whether the memory of Parley's processes grows while they execute many runs. It
// compares the memory after all runs with the memory after 30 % of them.
type soak struct {
	Requests int `default:"86400" help:"Number of run-automation requests, each with its own key."`
	Clients  int `default:"64" help:"Number of clients, each with one request at a time."`
}

// Measure sends the requests, and measures the memory of ingress and worker twice.
func (k *soak) Measure(ctx context.Context, s *loadEnv) error {
	if k.Clients < 1 || k.Requests < 10*k.Clients {
		return errors.New("--requests must be at least ten times --clients")
	}
	p, _, err := s.parley(ctx, "parley", parley.Config{})
	if err != nil {
		return err
	}

	early := k.Requests * 3 / 10
	var memory [2]map[string]int64
	for i, requests := range []int{early, k.Requests - early} {
		if _, err := load.Execute(ctx, p.Load(p.Agent), load.Duration{Clients: k.Clients, Each: requests / k.Clients}); err != nil {
			return errors.Join(err, p.Err())
		}
		if memory[i], err = measureMemory(ctx, &p.Group); err != nil {
			return err
		}
		progressf("soak, part %d of 2: ingress %.1f MiB, worker %.1f MiB", i+1, mib(memory[i]["ingress"]), mib(memory[i]["worker"]))
	}

	for _, name := range []string{"ingress", "worker"} {
		s.add(fmt.Sprintf("%d requests", k.Requests), "MiB of the "+name+", of those after 30 %",
			[]float64{mib(memory[0][name])}, []float64{mib(memory[1][name])}, ratioAtMost(1.1))
	}
	return nil
}

// mib converts bytes to MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
