package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// fairness measures the latency of one organization's streamed chats while another organization has
// thousands of runs in flight. The answers of those runs take 90 s each. Parley has its default
// settings.
type fairness struct {
	Flood   int `default:"5000" help:"Number of runs of the other organization, rounded up to a multiple of 64."`
	Clients int `default:"32" help:"Number of clients of the measured organization, each with one chat at a time."`
	Each    int `default:"31" help:"Answers that a client reads in a round, one after another; the first one is not measured."`
	Rounds  int `default:"3" help:"Number of rounds. Each round measures first without and then with the runs of the other organization."`
}

const (
	floodClients = 64   // clients that submit the other organization's runs
	floodPart    = 0.95 // minimum part of the other organization's runs that is in flight during the measurement
	fairRatio    = 1.5  // goal for the p99 during the flood, relative to the p99 without it
)

// Measure measures the first organization's latency alternately without and with the runs of the
// other organization (the flood).
func (f *fairness) Measure(ctx context.Context, s *loadEnv) error {
	provider := keep(s, model.StartPaced(model.PieceEvery))
	p, dsn, err := s.parley(ctx, "parley", parley.Config{Model: model.OpenAI + model.Paced, Settings: provider.Settings()})
	if err != nil {
		return err
	}
	other, err := p.SignUp(ctx, "other", model.OpenAI+model.Slow)
	if err != nil {
		return err
	}

	var alone, flooded []values
	for n := range f.Rounds {
		var beside values
		quiet, err := f.chats(ctx, p)
		if err == nil {
			provider.Hold()
			err = f.flood(ctx, other, provider)
		}
		if err == nil {
			beside, err = f.chats(ctx, p)
		}
		if err != nil {
			return errors.Join(err, p.Err())
		}
		active := provider.Active()
		if active < f.leastActive() {
			return fmt.Errorf("only %d of %d runs of the flood were in flight when the chats ended; lower --each", active, f.Flood)
		}
		progressf("fairness, round %d of %d: first piece p99 %.0f ms alone, %.0f ms during %d runs of another organization (%d in flight)",
			n+1, f.Rounds, quiet["p99 ms"], beside["p99 ms"], f.Flood, active)
		alone, flooded = append(alone, quiet), append(flooded, beside)

		// The next round must begin without runs of the flood.
		provider.Release() // the remaining runs of the flood finish immediately
		err = until(ctx, nil, func() (bool, error) {
			unfinished, err := count(ctx, dsn, `SELECT count(*) FROM runs WHERE status IN ('queued', 'running')`)
			return unfinished == 0, err
		})
		if err != nil {
			return err
		}
	}

	name := fmt.Sprintf("%d runs of another organization", f.Flood)
	s.add(name, "first piece p50 ms", column(alone, "p50 ms"), column(flooded, "p50 ms"), nil)
	s.add(name, "first piece p99 ms", column(alone, "p99 ms"), column(flooded, "p99 ms"), ratioAtMost(fairRatio))
	return nil
}

// chats measures the latency of the first organization's chats in one round.
func (f *fairness) chats(ctx context.Context, p *parley.Parley) (values, error) {
	got, err := load.ReadStreams(ctx, p.Streams(p.Agent, model.Answer),
		load.StreamClients{Clients: f.Clients, Each: f.Each, Spread: model.AnswerTime(model.PieceEvery)})
	if err != nil {
		return nil, err
	}
	return values{"p50 ms": load.Millis(got.Latencies, 50), "p99 ms": load.Millis(got.Latencies, 99)}, nil
}

// leastActive returns the number of runs of the flood that must be in flight during a measurement.
func (f *fairness) leastActive() int { return int(math.Ceil(floodPart * float64(f.Flood))) }

// flood submits the other organization's runs, and returns when enough of them are in flight.
func (f *fairness) flood(ctx context.Context, other *parley.Organization, provider *model.PacedProvider) error {
	clients := min(floodClients, f.Flood)
	each := (f.Flood + clients - 1) / clients
	if _, err := load.Execute(ctx, other.Chats(other.Agent), load.Duration{Clients: clients, Each: each}); err != nil {
		return err
	}
	if err := until(ctx, nil, func() (bool, error) { return provider.Active() >= f.leastActive(), nil }); err != nil {
		return fmt.Errorf("%d of %d runs of the flood are in flight: %w", provider.Active(), f.Flood, err)
	}
	return nil
}
