package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

const (
	// floodAPlace is how many clients flood, for each run that all workers can carry out at a time.
	floodAPlace = 8
	// windowShare is which part of all workers' places one organization may have. By default it is a half of one worker's on two cores.
	windowShare = 2
	// floodLead is how long the flood is there before and after what is measured beside it.
	floodLead = 500 * time.Millisecond
)

// flood measures one organization's requests alone and beside another's, in turn.
func (m *measurer) flood(ctx context.Context) (out *report.Flood, err error) {
	c := m.config
	places := c.Places * c.most()
	out = &report.Flood{Workers: c.most(), Window: max(1, places/windowShare), Clients: c.Quiet, Flooding: floodAPlace * places}
	p, err := m.start(ctx, "flood", out.Workers, out.Window)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	quiet, err := p.Join(ctx, "quiet@example.com")
	if err != nil {
		return nil, err
	}
	for n := range c.Rounds {
		round, err := m.floodRound(ctx, p, quiet, out.Flooding)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("flood: %w", err), p.Err())
		}
		out.Rounds = append(out.Rounds, round)
		c.Progress("flood, round %d of %d: p99 %.1f ms alone, %.1f ms beside %.0f runs/s of another organization", n+1, c.Rounds, round.AloneP99,
			round.BesideP99, round.Flooding)
	}
	return out, nil
}

func (m *measurer) floodRound(ctx context.Context, p *parley.Parley, quiet load.Spec, flooding int) (report.FloodRound, error) {
	c := m.config
	alone, err := m.load(ctx, quiet, c.Quiet, c.WarmUp, c.Duration)
	if err != nil {
		return report.FloodRound{}, err
	}
	type ended struct {
		result *load.Result
		err    error
	}
	flood := make(chan ended, 1)
	go func() {
		result, err := m.load(ctx, p.Load(), flooding, floodLead, c.WarmUp+c.Duration+floodLead)
		flood <- ended{result, err}
	}()
	var beside *load.Result
	if err = wait(ctx, floodLead); err == nil {
		beside, err = m.load(ctx, quiet, c.Quiet, c.WarmUp, c.Duration)
	}
	other := <-flood
	if err := errors.Join(err, other.err); err != nil {
		return report.FloodRound{}, err
	}
	out := report.FloodRound{
		AloneP50: millis(alone, 0.5), AloneP99: millis(alone, 0.99), BesideP50: millis(beside, 0.5), BesideP99: millis(beside, 0.99),
		Quiet: beside.PerSecond(), Flooding: other.result.PerSecond(),
	}
	out.P99 = out.BesideP99 / out.AloneP99
	return out, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
