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

// inflight measures how many streamed runs of one organization are in flight at a time with
// Parley's default settings, and the memory that each takes. The model stops in the middle of its
// answers until all runs are in flight.
type inflight struct {
	Runs   int `default:"5000" help:"Streamed chats that are open at a time."`
	Rounds int `default:"3" help:"Rounds, each with new processes."`
}

const (
	startRate     = 1000            // chats that are opened a second
	steadyFor     = 3 * time.Second // runs are in flight once their number has not grown for so long
	warmClients   = 20              // clients of an ingress before it is measured
	warmRequests  = 10              // of each of them
	warmTime      = time.Second     // or so long
	maxRunKiB     = 60              // in the worker
	maxStreamKiB  = 30              // in the ingress
	filesOfClient = 2               // the bench is both client and model
)

// Measure measures Parley in each round.
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
	s.add(name, "KiB of a run in the worker", nil, worker, atMost(maxRunKiB))
	s.add(name, "KiB of a stream in the ingress", nil, ingress, atMost(maxStreamKiB))
	return nil
}

// inflightRound is a fresh Parley.
type inflightRound struct {
	*loadEnv

	runs            int
	active          int     // runs in flight
	worker, ingress float64 // KiB of each
}

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

// awaitActive waits until the number of answers in progress has stopped growing, and returns it.
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
