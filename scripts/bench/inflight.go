package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// inflight measures how many streamed runs of one organization can be in flight at the same time
// with Parley's default settings, and how much memory each run takes. The model pauses in the
// middle of each answer until all runs are in flight.
type inflight struct {
	Runs   int `default:"5000" help:"Number of streamed chats that are open simultaneously."`
	Rounds int `default:"3" help:"Number of rounds, each with new processes."`
}

const (
	startRate     = 1000            // number of chats opened per second
	steadyFor     = 3 * time.Second // time without growth after which the number of runs in flight is final
	warmClients   = 20              // number of clients that warm up an ingress before it is measured
	warmRequests  = 10              // number of requests that each of these clients sends
	warmTime      = time.Second     // duration of a warm-up if the number of requests does not limit it
	maxRunKiB     = 60              // goal for the worker's memory per run
	maxStreamKiB  = 30              // goal for the ingress's memory per stream
	filesOfClient = 2               // open files of the bench per client: one connection to Parley, one at the model
)

// Measure measures, in each round, the number of runs in flight and the memory per run.
func (f *inflight) Measure(ctx context.Context, s *loadEnv) error {
	runs, err := clientsWithin(f.Runs, filesOfClient)
	if err != nil {
		return err
	}
	var rounds []values
	for n := range f.Rounds {
		got, err := f.round(ctx, s, fmt.Sprintf("parley_%d", n), runs)
		if err != nil {
			return err
		}
		rounds = append(rounds, got)
		progressf("inflight, round %d of %d: %.0f runs in flight, %.1f KiB each in the worker, %.1f in the ingress",
			n+1, f.Rounds, got[runsInFlight], got[workerKiB], got[ingressKiB])
	}

	name := fmt.Sprintf("%d chats", runs)
	s.add(name, runsInFlight, nil, column(rounds, runsInFlight), atLeast(float64(runs)))
	s.add(name, workerKiB, nil, column(rounds, workerKiB), atMost(maxRunKiB))
	s.add(name, ingressKiB, nil, column(rounds, ingressKiB), atMost(maxStreamKiB))
	return nil
}

// Measures of the load.
const (
	runsInFlight = "runs in flight"
	workerKiB    = "KiB per run in the worker"
	ingressKiB   = "KiB per stream in the ingress"
)

// round measures the memory of Parley's processes before and during the runs. The difference,
// divided by the number of runs, is the memory per run. Warm-up requests precede the first
// measurement.
func (*inflight) round(ctx context.Context, s *loadEnv, name string, runs int) (values, error) {
	provider := keep(s, model.StartPaced(model.PieceEvery))
	p, _, err := s.parley(ctx, name, parley.Config{Model: model.OpenAI + model.Paced, Settings: provider.Settings()})
	if err != nil {
		return nil, err
	}
	agent, err := p.NewAgent(ctx, "Suspended", model.OpenAI+model.Suspended, nil)
	if err == nil {
		err = p.RestartIngress(ctx)
	}
	if err == nil {
		_, err = load.ReadStreams(ctx, p.Streams(p.Agent, model.Answer),
			load.StreamClients{Clients: warmClients, Each: warmRequests})
	}
	if err != nil {
		return nil, errors.Join(err, p.Err())
	}

	provider.Hold()
	most, grown := 0, time.Now()
	memory, err := heldMemory(ctx, &p.Group,
		func(ctx context.Context) error {
			_, err := load.ReadStreams(ctx, p.Streams(agent, model.Answer),
				load.StreamClients{Clients: runs, Each: 1, Spread: time.Duration(runs) * time.Second / startRate})
			return err
		},
		func() (bool, error) { // all runs are in flight, or their number has stopped growing
			if n := provider.Active(); n > most {
				most, grown = n, time.Now()
			}
			return most >= runs || most > 0 && time.Since(grown) >= steadyFor, nil
		},
		func() error {
			defer provider.Release()
			return s.inspect(ctx, name)
		})
	if err := errors.Join(err, p.Err(), p.Stop()); err != nil {
		return nil, err
	}
	return values{
		runsInFlight: float64(most),
		workerKiB:    kibEach(memory["worker"], most), ingressKiB: kibEach(memory["ingress"], runs),
	}, nil
}
