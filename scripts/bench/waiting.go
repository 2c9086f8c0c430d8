package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
)

// waiting measures the memory of requests that wait for their runs, in Parley and in a bare
// handler:
//
//	clients ──run-automation──▶ ingress ··· worker ──▶ model, which holds its answers
//	clients ──the same requests──▶ a bare handler that only waits
//
// After the measurement the model answers, and each client must receive an answer.
type waiting struct {
	Waiters int `default:"10000" help:"Requests that wait at one ingress; fewer if the limit of open files requires it."`
	Rounds  int `default:"3" help:"Number of rounds, each with new processes."`
}

// Measure measures the memory per request, once in the bare handler and each round in Parley.
func (w *waiting) Measure(ctx context.Context, s *loadEnv) error {
	waiters, err := clientsWithin(w.Waiters, filesOfClient)
	if err != nil {
		return err
	}
	parked, err := parkedMemory(ctx, s, waiters)
	if err != nil {
		return err
	}
	provider, err := s.model(ctx, 0)
	if err != nil {
		return err
	}

	var requests []float64
	for n := range w.Rounds {
		kib, err := waitingMemory(ctx, s, provider, fmt.Sprintf("parley_%d", n), waiters)
		if err != nil {
			return err
		}
		progressf("waiting, round %d of %d: %.1f KiB per request", n+1, w.Rounds, kib)
		requests = append(requests, kib)
	}
	s.add(fmt.Sprintf("%d clients", waiters), "KiB per waiting request", []float64{parked}, requests, ratioAtMost(1.3))
	return nil
}

// parkedMemory returns the memory per waiting request in a bare handler without Parley, in KiB.
func parkedMemory(ctx context.Context, s *loadEnv, waiters int) (kib float64, err error) {
	server, _, err := s.floor(ctx, floor.Config{}, floor.Parked)
	if err != nil {
		return 0, err
	}
	base := "http://" + server.Address
	spec := load.Spec{Address: server.Address, Path: floor.Path, Body: load.Body("ag_floor"), Expect: load.Message}
	kib, err = heldMemory(ctx, server.Processes()[0], spec, waiters,
		func() (n int, err error) {
			err = load.Request{Method: http.MethodGet, Path: floor.WaitingPath}.Ask(ctx, base, &n)
			return n, err
		},
		func() error {
			_, err := load.Request{Method: http.MethodPost, Path: floor.ReleasePath}.Read(ctx, base)
			return err
		})
	return kib, errors.Join(err, server.Stop())
}

// waitingMemory starts a new Parley and returns its memory per waiting request, in KiB.
func waitingMemory(ctx context.Context, s *loadEnv, provider *model.Model, name string, waiters int) (kib float64, err error) {
	p, dsn, err := s.parley(ctx, name, parley.Config{Model: model.Name, Settings: provider.Settings()})
	if err == nil {
		err = p.RestartIngress(ctx)
	}
	if err != nil {
		return 0, err
	}
	if _, _, err := s.client(ctx, p.Load(p.Agent), warmClients, 0, warmTime); err != nil {
		return 0, err
	}

	warm, err := count(ctx, dsn, parley.Accepted)
	if err != nil {
		return 0, err
	}
	provider.Hold()
	defer provider.Release()
	kib, err = heldMemory(ctx, p.Ingress(), p.Load(p.Agent), waiters,
		func() (int, error) {
			accepted, err := count(ctx, dsn, parley.Accepted)
			return int(accepted - warm), err
		},
		func() error {
			err := s.inspect(ctx, p, name)
			provider.Release()
			return err
		})
	return kib, errors.Join(err, p.Err(), p.Stop())
}

// heldMemory returns a process's memory per waiting request, in KiB. It starts requests that wait
// until it calls release. The function held returns the number of requests that are waiting.
func heldMemory(
	ctx context.Context, p *process.Process, spec load.Spec, waiters int, held func() (int, error), release func() error,
) (kib float64, err error) {
	before, err := settledMemory(ctx, p)
	if err != nil {
		return 0, err
	}

	spec.Nonce = rand.Text()[:10]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := load.Execute(ctx, spec, load.Duration{Clients: waiters, Spread: time.Duration(waiters) * time.Second / startRate})
		answered <- err
	}()
	err = until(ctx, answered, func() (bool, error) {
		n, err := held()
		return n >= waiters, err
	})
	if err != nil {
		return 0, errors.Join(fmt.Errorf("starting %d requests: %w", waiters, err), p.Err())
	}

	after, err := settledMemory(ctx, p)
	if err := errors.Join(err, release(), <-answered); err != nil {
		return 0, err
	}
	return kibEach(after-before, waiters), nil
}
