// Package scale measures what more worker processes bring behind one ingress, and what one organization sees of another's flood.
//
//	clients ──run-automation──▶ ingress ··· worker, worker-2, … ──▶ model, which answers after its time
//
// Each worker carries out few runs at a time, so that these places are the limit and not the machine: most of a run's time it waits
// for the model, as real agents do.
package scale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/machine"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

// Config says what to measure.
type Config struct {
	Workers  []int         // numbers of worker processes, rising
	Places   int           // runs that a worker carries out at a time
	Answer   time.Duration // that the model takes
	Rounds   int
	WarmUp   time.Duration
	Duration time.Duration
	Quiet    int    // clients of the organization that another floods; 0: no flood
	Command  string // a binary that calls load.Serve on the argument client, and model.Serve on model
	LogsDir  string
	// Parley says how to start one, with a database of that name; Model, Workers and Settings are filled in.
	Parley   func(ctx context.Context, name string) (parley.Config, error)
	Progress func(format string, args ...any)
}

// clientsAPlace is how many clients there are for each run that is carried out at a time: there is always one more to begin.
const clientsAPlace = 2

func (c *Config) most() int { return slices.Max(c.Workers) }

// Run measures all.
func Run(ctx context.Context, c Config) (out *report.Scale, err error) {
	m := &measurer{config: c}
	if m.model, err = model.Start(ctx, c.Command, c.LogsDir, c.Answer); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.model.Stop()) }()
	out = &report.Scale{Places: c.Places, Answer: c.Answer.Seconds() * 1e3}
	if out.Levels, err = m.levels(ctx); err != nil || c.Quiet == 0 {
		return out, err
	}
	out.Flood, err = m.flood(ctx)
	return out, err
}

type measurer struct {
	config Config
	model  *model.Model
}

// start starts Parley with so many workers, and lets so many runs of an organization be dispatched at a time.
func (m *measurer) start(ctx context.Context, name string, workers, window int) (*parley.Parley, error) {
	config, err := m.config.Parley(ctx, name)
	if err != nil {
		return nil, err
	}
	config.Model, config.Workers = model.Name, workers
	config.Settings = map[string]string{
		"WORKER_CONCURRENCY": strconv.Itoa(m.config.Places), "ORG_DISPATCH_WINDOW": strconv.Itoa(window),
	}
	maps.Copy(config.Settings, m.model.Settings())
	return parley.Start(ctx, config)
}

// levels measures each number of workers, in turn.
func (m *measurer) levels(ctx context.Context) (out []report.ScaleLevel, err error) {
	c := m.config
	p, err := m.start(ctx, "scale", c.Workers[0], clientsAPlace*c.Places*c.most())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	for _, workers := range c.Workers {
		out = append(out, report.ScaleLevel{Workers: workers, Clients: clientsAPlace * c.Places * workers})
	}
	for n := range c.Rounds {
		for i := range out {
			round, err := m.level(ctx, p, out[i])
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%d workers: %w", out[i].Workers, err), p.Err())
			}
			out[i].Rounds = append(out[i].Rounds, round)
			fewest := &out[0]
			last := &out[i].Rounds[n]
			last.LinearOf(out[i].Workers, fewest.Rounds[n], fewest.Workers)
			c.Progress("%d workers, round %d of %d: %.1f runs/s, %.3f of linear", out[i].Workers, n+1, c.Rounds, last.RunsPerSecond, last.Linear)
		}
	}
	return out, nil
}

// level measures one number of workers once.
func (m *measurer) level(ctx context.Context, p *parley.Parley, level report.ScaleLevel) (report.ScaleRound, error) {
	if err := p.SetWorkers(ctx, level.Workers); err != nil {
		return report.ScaleRound{}, err
	}
	before, began := machineBusy(), time.Now()
	result, err := m.load(ctx, p.Load(), level.Clients, m.config.WarmUp, m.config.Duration)
	if err != nil {
		return report.ScaleRound{}, err
	}
	whole := time.Since(began) * time.Duration(runtime.NumCPU())
	return report.ScaleRound{
		RunsPerSecond: result.PerSecond(), P50: millis(result, 0.5), P99: millis(result, 0.99),
		Busy: (machineBusy() - before).Seconds() / whole.Seconds(),
	}, nil
}

// machineBusy is the CPU time of all processes; 0 on systems that do not tell.
func machineBusy() time.Duration {
	busy, err := machine.Busy()
	if err != nil {
		return 0
	}
	return busy
}

// load runs a client process.
func (m *measurer) load(ctx context.Context, spec load.Spec, clients int, warmUp, duration time.Duration) (*load.Result, error) {
	spec.Nonce, spec.Clients, spec.WarmUp, spec.Duration = rand.Text()[:10], clients, warmUp, duration
	result, _, err := load.Client(ctx, spec, m.config.Command, "client")
	if err == nil {
		err = result.Failures()
	}
	if err == nil && result.Latencies.Count() == 0 {
		err = errors.New("nothing was answered in time")
	}
	return result, err
}

func millis(r *load.Result, quantile float64) float64 {
	return r.Latencies.Quantile(quantile).Seconds() * 1e3
}
