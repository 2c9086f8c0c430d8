package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/report"
)

const (
	nudgeTime  = 20 * time.Millisecond
	primeTime  = time.Second
	reportedIn = 1100 * time.Millisecond // after which a connection reports its commits when it commits again
)

// Config says how long and how often, and what the client process is.
type Config struct {
	Clients  []int
	Rounds   int
	WarmUp   time.Duration
	Duration time.Duration
	Command  string                   // a binary that calls load.Serve on the argument client
	Progress func(int, report.Sample) // hears of each round, numbered from 1
}

// Servers are what all sides stand on.
type Servers interface {
	CPU() (map[string]time.Duration, error)
	Commits(ctx context.Context, database string) (int64, error)
	WALSyncs(ctx context.Context) (int64, error)
	Checkpoint(ctx context.Context) error
}

// Processes are a side's own.
type Processes interface {
	CPU() (map[string]time.Duration, error)
	Err() error
}

// Side is one of what is compared.
type Side struct {
	Name      string
	Load      load.Spec // without clients and times, and without a nonce unless it has Keys
	Database  string    // by name
	Processes Processes
	// Allocated is how many bytes the side's processes have allocated since their start, by name; nil when they do not tell.
	Allocated func(ctx context.Context) (map[string]float64, error)
}

// Outcome is all rounds in the order they were measured, and how many requests each side has answered in all.
type Outcome struct {
	Samples  []report.Sample
	Answered map[string]int64
}

// Run measures all sides. An answer that is not as it should be ends it with an error.
func Run(ctx context.Context, c Config, servers Servers, sides []Side) (*Outcome, error) {
	m := &measurer{config: c, servers: servers, out: Outcome{Answered: map[string]int64{}}}
	for _, side := range sides {
		if err := m.prime(ctx, side); err != nil {
			return nil, err
		}
	}
	for _, clients := range c.Clients {
		for round := range c.Rounds {
			for _, side := range sides {
				if err := m.round(ctx, side, clients, round+1); err != nil {
					return nil, err
				}
			}
		}
	}
	return &m.out, nil
}

type measurer struct {
	config  Config
	servers Servers
	out     Outcome
}

// prime lets a side's processes and connections come to life before anything is measured.
func (m *measurer) prime(ctx context.Context, side Side) error {
	most := slices.Max(m.config.Clients)
	if _, _, err := m.load(ctx, side, most, 0, primeTime); err != nil {
		return err
	}
	_, err := m.settle(ctx, side, most)
	return err
}

// round measures one side once.
func (m *measurer) round(ctx context.Context, side Side, clients, number int) error {
	spec := side.Load
	spec.Clients, spec.WarmUp, spec.Duration = clients, m.config.WarmUp, m.config.Duration
	_, seen, err := m.observe(ctx, side, spec)
	if err != nil {
		return err
	}
	sample := report.Sample{Side: side.Name, Clients: clients, Round: seen}
	m.out.Samples = append(m.out.Samples, sample)
	if m.config.Progress != nil {
		m.config.Progress(number, sample)
	}
	return nil
}

// observe sends a side what spec says, and gives what the client and what the machine saw.
func (m *measurer) observe(ctx context.Context, side Side, spec load.Spec) (*load.Result, report.Round, error) {
	var none report.Round
	if err := m.servers.Checkpoint(ctx); err != nil {
		return nil, none, err
	}
	start, err := m.counts(ctx, side)
	if err != nil {
		return nil, none, err
	}
	before, err := m.usage(side)
	if err != nil {
		return nil, none, err
	}
	result, client, err := m.send(ctx, side, spec)
	if err != nil {
		return nil, none, err
	}
	after, err := m.usage(side)
	if err != nil {
		return nil, none, err
	}
	round := figures(result)
	round.CPU, round.Others = before.until(after, client, result.Answered)
	nudged, err := m.settle(ctx, side, spec.Clients)
	if err != nil {
		return nil, none, err
	}
	end, err := m.counts(ctx, side)
	if err != nil {
		return nil, none, err
	}
	start.until(end, result.Answered+nudged, &round)
	return result, round, nil
}

// settle waits until PostgreSQL's connections tell what they have done, and makes them: it gives the number of requests for that.
func (m *measurer) settle(ctx context.Context, side Side, clients int) (int64, error) {
	if err := wait(ctx, reportedIn); err != nil {
		return 0, err
	}
	nudge, _, err := m.load(ctx, side, clients, 0, nudgeTime)
	if err != nil {
		return 0, err
	}
	return nudge.Answered, nil
}

// load runs a client process against a side.
func (m *measurer) load(ctx context.Context, side Side, clients int, warmUp, duration time.Duration) (*load.Result, time.Duration, error) {
	spec := side.Load
	spec.Clients, spec.WarmUp, spec.Duration = clients, warmUp, duration
	return m.send(ctx, side, spec)
}

// send has a client process send what spec says.
func (m *measurer) send(ctx context.Context, side Side, spec load.Spec) (*load.Result, time.Duration, error) {
	if spec.Keys == 0 {
		spec.Nonce = rand.Text()[:10]
	}
	result, used, err := load.Client(ctx, spec, m.config.Command, "client")
	if err == nil {
		err = result.Failures()
	}
	if err == nil && result.Answered == 0 {
		err = errors.New("nothing was answered")
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s with %d clients: %w", side.Name, spec.Clients, err), side.Processes.Err())
	}
	m.out.Answered[side.Name] += result.Answered
	return result, used, nil
}

func figures(r *load.Result) report.Round {
	millis := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	return report.Round{
		Runs: r.Latencies.Count(), RunsPerSecond: r.PerSecond(), Mean: millis(r.Latencies.Mean()), Max: millis(r.Latencies.Max()),
		P50: millis(r.Latencies.Quantile(0.5)), P99: millis(r.Latencies.Quantile(0.99)),
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
