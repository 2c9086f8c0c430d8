package main

import (
	"context"
	"crypto/rand"
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
	steadyFor     = 3 * time.Second // all runs are in flight if their number has not grown for this time
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
	var active, worker, ingress []float64
	for n := range f.Rounds {
		r := &inflightRound{loadEnv: s, runs: runs}
		if err := r.measure(ctx, fmt.Sprintf("parley_%d", n)); err != nil {
			return err
		}
		progressf("inflight, round %d of %d: %d runs in flight, %.1f KiB each in the worker, %.1f in the ingress",
			n+1, f.Rounds, r.active, r.worker, r.ingress)
		active, worker, ingress = append(active, float64(r.active)), append(worker, r.worker), append(ingress, r.ingress)
	}

	name := fmt.Sprintf("%d chats", runs)
	s.add(name, "runs in flight", nil, active, atLeast(float64(runs)))
	s.add(name, "KiB per run in the worker", nil, worker, atMost(maxRunKiB))
	s.add(name, "KiB per stream in the ingress", nil, ingress, atMost(maxStreamKiB))
	return nil
}

// inflightRound contains the newly started Parley of one round and the measured values.
type inflightRound struct {
	*loadEnv

	runs            int
	active          int     // number of runs in flight
	worker, ingress float64 // memory of each process, in KiB per run
}

// measure measures the memory of Parley's processes before and during the runs. The difference,
// divided by the number of runs, is the memory per run. Warm-up requests precede the first
// measurement.
func (r *inflightRound) measure(ctx context.Context, name string) error {
	provider, err := r.paced(ctx, model.PieceEvery)
	if err != nil {
		return err
	}
	p, _, err := r.parley(ctx, name, parley.Config{Model: model.OpenAI + model.Paced, Settings: provider.Settings()})
	if err != nil {
		return err
	}
	agent, err := p.NewAgent(ctx, "Suspended", model.OpenAI+model.Suspended, nil)
	if err == nil {
		err = p.RestartIngress(ctx)
	}
	if err == nil {
		_, err = load.ReadStreams(ctx, p.Streams(p.Agent, model.Answer),
			load.StreamClients{Clients: warmClients, Each: warmRequests, Nonce: rand.Text()[:10]})
	}
	if err != nil {
		return errors.Join(err, p.Err())
	}

	before, err := memoryOf(ctx, p)
	if err != nil {
		return err
	}

	provider.Hold()
	read := make(chan error, 1)
	go func() {
		spread := time.Duration(r.runs) * time.Second / startRate
		_, err := load.ReadStreams(ctx, p.Streams(agent, model.Answer),
			load.StreamClients{Clients: r.runs, Each: 1, Spread: spread, Nonce: rand.Text()[:10]})
		read <- err
	}()
	if r.active, err = r.awaitActive(ctx, provider, read); err != nil {
		return errors.Join(err, p.Err())
	}

	after, err := memoryOf(ctx, p)
	if err != nil {
		return err
	}
	r.worker, r.ingress = kibEach(after["worker"]-before["worker"], r.active), kibEach(after["ingress"]-before["ingress"], r.runs)
	if err := r.inspect(ctx, p, name); err != nil {
		return err
	}
	provider.Release()
	return errors.Join(<-read, p.Err(), p.Stop())
}

// awaitActive waits until the number of answers in progress stops growing, and returns the number.
func (r *inflightRound) awaitActive(ctx context.Context, provider *model.PacedProvider, ended <-chan error) (most int, err error) {
	grown := time.Now()
	err = until(ctx, ended, func() (bool, error) {
		if n := provider.Active(); n > most {
			most, grown = n, time.Now()
		}
		return most >= r.runs || most > 0 && time.Since(grown) >= steadyFor, nil
	})
	return most, err
}
