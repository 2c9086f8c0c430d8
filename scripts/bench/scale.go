package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// scale measures the throughput of one ingress with several worker processes.
//
// Each worker has few slots, so that the slots limit the throughput and not the machine. Like the
// runs of real agents, the measured runs spend most of their time waiting for the model.
//
// The number of slots per worker is a multiple of eight. A worker may execute one additional run
// for each eight slots or part of eight (queuedb.Reserve). With four slots, a fifth run would raise
// the baseline of one worker by up to a quarter.
type scale struct {
	Workers []int         `default:"1,2,4" help:"Numbers of worker processes, in ascending order."`
	Slots   int           `default:"16" help:"Number of runs that a worker executes simultaneously."`
	Answer  time.Duration `default:"400ms" help:"Time that the model takes for an answer."`
	Rounds  int           `default:"3" help:"Number of rounds for each number of workers."`
	Seconds float64       `default:"5" help:"Measured seconds per round, after a warm-up of a quarter of that time."`
}

// Measure measures the throughput with each number of workers in turn. There are twice as many
// clients as slots, so that some runs always wait for a slot.
func (c *scale) Measure(ctx context.Context, s *loadEnv) error {
	settings := keep(s, model.Start(c.Answer)).Settings()
	settings["WORKER_CONCURRENCY"] = strconv.Itoa(c.Slots)
	p, _, err := s.parley(ctx, "parley", parley.Config{Model: model.Name, Settings: settings})
	if err != nil {
		return err
	}

	duration := time.Duration(c.Seconds * float64(time.Second))
	linear, measured := make([][]float64, len(c.Workers)), make([][]float64, len(c.Workers))
	for n := range c.Rounds {
		for i, workers := range c.Workers {
			if err := p.SetWorkers(ctx, workers); err != nil {
				return err
			}
			result, err := load.Execute(ctx, p.Load(p.Agent),
				load.Duration{Clients: 2 * c.Slots * workers, WarmUp: duration / 4, Measured: duration})
			if err != nil {
				return errors.Join(fmt.Errorf("%d workers: %w", workers, err), p.Err())
			}
			measured[i] = append(measured[i], result.PerSecond())
			linear[i] = append(linear[i], measured[0][n]/float64(c.Workers[0])*float64(workers))
			progressf("scale, %d workers, round %d of %d: %.1f runs/s", workers, n+1, c.Rounds, result.PerSecond())
		}
	}

	for i, workers := range c.Workers {
		s.add(fmt.Sprintf("%d workers", workers), "runs/s, of linear", linear[i], measured[i], ratioAtLeast(0.95))
	}
	return nil
}
