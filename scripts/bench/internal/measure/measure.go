package measure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	Progress func(int, report.Sample) // hears of each round, numbered from 1; its commits are not known yet
}

// Servers are what all sides stand on.
type Servers interface {
	CPU() (map[string]time.Duration, error)
	Commits(ctx context.Context, database string) (int64, error)
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
	Load      load.Spec // without clients and times
	Database  string    // by name
	Processes Processes
}

// Outcome is all rounds in the order they were measured, and how many requests each side has answered in all.
type Outcome struct {
	Samples  []report.Sample
	Answered map[string]int64
}

// Run measures all sides. An answer that is not as it should be ends it with an error.
func Run(ctx context.Context, c Config, servers Servers, sides []Side) (*Outcome, error) {
	m := &measurer{config: c, servers: servers, out: Outcome{Answered: map[string]int64{}}, open: map[string]*openRound{}}
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
	for _, side := range sides {
		if err := m.close(ctx, side); err != nil {
			return nil, err
		}
	}
	return &m.out, nil
}

type measurer struct {
	config  Config
	servers Servers
	out     Outcome
	open    map[string]*openRound // by side
}

// openRound is a side's last round, whose commits have not been counted.
type openRound struct {
	sample   int // its place in out.Samples; -1: the priming, which is no sample
	clients  int
	commits  int64 // when it began
	answered int64 // in the round
	ended    time.Time
}

// prime lets a side's processes and connections come to life before anything is measured.
func (m *measurer) prime(ctx context.Context, side Side) error {
	most := 0
	for _, n := range m.config.Clients {
		most = max(most, n)
	}
	if _, _, err := m.load(ctx, side, most, 0, primeTime); err != nil {
		return err
	}
	m.open[side.Name] = &openRound{sample: -1, clients: most, ended: time.Now()}
	return nil
}

// round measures one side once.
func (m *measurer) round(ctx context.Context, side Side, clients, number int) error {
	if err := m.servers.Checkpoint(ctx); err != nil {
		return err
	}
	if err := m.close(ctx, side); err != nil {
		return err
	}
	commits, err := m.servers.Commits(ctx, side.Database)
	if err != nil {
		return err
	}
	before, err := m.usage(side)
	if err != nil {
		return err
	}
	result, client, err := m.load(ctx, side, clients, m.config.WarmUp, m.config.Duration)
	if err != nil {
		return err
	}
	after, err := m.usage(side)
	if err != nil {
		return err
	}
	sample := report.Sample{Side: side.Name, Clients: clients, Round: figures(result)}
	sample.Round.CPU, sample.Round.Others = before.until(after, client, result.Answered)
	m.out.Samples = append(m.out.Samples, sample)
	m.open[side.Name] = &openRound{
		sample: len(m.out.Samples) - 1, clients: clients, commits: commits, answered: result.Answered, ended: time.Now(),
	}
	if m.config.Progress != nil {
		m.config.Progress(number, sample)
	}
	return nil
}

// close counts the commits of a side's last round.
func (m *measurer) close(ctx context.Context, side Side) error {
	last := m.open[side.Name]
	if err := wait(ctx, time.Until(last.ended.Add(reportedIn))); err != nil {
		return err
	}
	nudge, _, err := m.load(ctx, side, last.clients, 0, nudgeTime)
	if err != nil || last.sample < 0 {
		return err
	}
	commits, err := m.servers.Commits(ctx, side.Database)
	if err != nil {
		return err
	}
	runs := last.answered + nudge.Answered
	m.out.Samples[last.sample].Round.CommitsPerRun = float64(commits-last.commits) / float64(max(runs, 1))
	return nil
}

// load runs a client process against a side.
func (m *measurer) load(ctx context.Context, side Side, clients int, warmUp, duration time.Duration) (*load.Result, time.Duration, error) {
	spec := side.Load
	spec.Clients, spec.WarmUp, spec.Duration = clients, warmUp, duration
	spec.Nonce = rand.Text()[:10]
	result, used, err := load.Client(ctx, spec, m.config.Command, "client")
	if err == nil {
		err = result.Failures()
	}
	if err == nil && result.Answered == 0 {
		err = errors.New("nothing was answered")
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s with %d clients: %w", side.Name, clients, err), side.Processes.Err())
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
