package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// waitMemory measures the memory of requests that wait for their runs, in Parley and in a bare
// handler:
//
//	clients ──run-automation──▶ ingress ··· worker ──▶ model, which holds its answers
//	clients ──the same requests──▶ a bare handler that only waits
//
// After the measurement the model answers, and each client must receive an answer.
type waitMemory struct {
	Waiters int `default:"10000" help:"Requests that wait at one ingress; fewer if the limit of open files requires it."`
	Rounds  int `default:"3" help:"Number of rounds, each with new processes."`
}

// Measure measures the memory per request, once in the bare handler, and in each round in Parley.
func (w *waitMemory) Measure(ctx context.Context, s *loadEnv) error {
	waiters, err := clientsWithin(w.Waiters, filesOfClient)
	if err != nil {
		return err
	}
	parked, err := parkedMemory(ctx, s, waiters)
	if err != nil {
		return err
	}
	provider := keep(s, model.Start(0))
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
	memory, err := heldMemory(ctx, &server.Group, waitAll(spec, waiters),
		func() (bool, error) {
			var n int
			raw, err := parley.Ask(ctx, http.MethodGet, base+floor.WaitingPath, nil)
			if err == nil {
				err = json.Unmarshal(raw, &n)
			}
			return n >= waiters, err
		},
		func() error {
			_, err := parley.Ask(ctx, http.MethodPost, base+floor.ReleasePath, nil)
			return err
		})
	return kibEach(memory["floor-"+floor.Parked], waiters), errors.Join(err, server.Stop())
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
	if _, err := load.Execute(ctx, p.Load(p.Agent), load.Duration{Clients: warmClients, Measured: warmTime}); err != nil {
		return 0, err
	}

	warm, err := count(ctx, dsn, parley.Accepted)
	if err != nil {
		return 0, err
	}
	provider.Hold()
	defer provider.Release()
	memory, err := heldMemory(ctx, &p.Group, waitAll(p.Load(p.Agent), waiters),
		func() (bool, error) {
			accepted, err := count(ctx, dsn, parley.Accepted)
			return accepted-warm >= int64(waiters), err
		},
		func() error {
			defer provider.Release()
			return s.inspect(ctx, name)
		})
	return kibEach(memory["ingress"], waiters), errors.Join(err, p.Err(), p.Stop())
}

// waitAll returns a function that sends the requests of all waiters. The clients start one after
// another, startRate of them per second. The function returns when all requests have ended.
func waitAll(spec load.Spec, waiters int) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := load.Execute(ctx, spec, load.Duration{Clients: waiters, Spread: time.Duration(waiters) * time.Second / startRate})
		return err
	}
}
