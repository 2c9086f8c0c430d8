package main

import (
	"context"
	"errors"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/measure"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

// steadyFlags say how arrivals at a share of the peak are measured.
type steadyFlags struct {
	SteadyClients     int     `name:"steady-clients" default:"128" help:"Clients whose throughput is the peak, each with one request at a time."`
	SteadyShare       float64 `name:"steady-share" default:"0.8" help:"Share of the peak that arrives then."`
	SteadySeconds     float64 `name:"steady-seconds" default:"60" help:"Measured time of the arrivals."`
	SteadyPeakSeconds float64 `name:"steady-peak-seconds" default:"5" help:"Measured time of the peak."`
}

const (
	steadyDatabase = "steady"
	steadySeed     = 1    // of the gaps between arrivals
	steadyInFlight = 2000 // with more the service does not keep up
)

func (s *steadyFlags) check() error {
	if s.SteadyClients < 1 || s.SteadyShare <= 0 || s.SteadySeconds <= 0 || s.SteadyPeakSeconds <= 0 {
		return errors.New("--steady-clients, --steady-share, --steady-seconds and --steady-peak-seconds must be above zero")
	}
	return nil
}

func (s *steadyFlags) measure(ctx context.Context, o *options, r *report.Report) error {
	return o.alone(ctx, "steady", r, func(on stage) error { return s.measureOn(ctx, o, on, r) })
}

func (s *steadyFlags) measureOn(ctx context.Context, o *options, on stage, r *report.Report) (err error) {
	p, dsn, err := on.parley(ctx, steadyDatabase, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	side := measure.Side{Name: report.Parley, Load: p.Load(), Database: steadyDatabase, Processes: p, Allocated: p.Allocated}
	measured, answered, err := s.peakAndShare(ctx, o, on, side)
	if err != nil {
		return errors.Join(err, on.servers.Err())
	}
	counts := map[string]count{report.Parley: {dsn, parley.Completed}}
	if _, err := stored(ctx, counts, map[string]int64{report.Parley: answered}); err != nil {
		return err
	}
	r.AddSteady(measured)
	return o.closer(ctx, on.servers, p, steadyDatabase, answered, r)
}

// peakAndShare measures the peak, then arrivals at a share of it, and tells how many requests were answered in all.
func (s *steadyFlags) peakAndShare(ctx context.Context, o *options, on stage, side measure.Side) (*report.Steady, int64, error) {
	warmUp := seconds(s.SteadyPeakSeconds / 4)
	peak, err := measure.Run(ctx, measure.Config{
		Clients: []int{s.SteadyClients}, Rounds: 1, WarmUp: warmUp, Duration: seconds(s.SteadyPeakSeconds), Command: o.self,
	}, on.servers, []measure.Side{side})
	if err != nil {
		return nil, 0, err
	}
	out := &report.Steady{
		Clients: s.SteadyClients, Peak: peak.Samples[0].Round, Share: s.SteadyShare, Seed: steadySeed, Seconds: s.SteadySeconds,
	}
	spec := side.Load
	spec.Clients, spec.WarmUp, spec.Duration = 2*s.SteadyClients, warmUp, seconds(s.SteadySeconds)
	spec.Arrivals = load.Arrivals{Rate: s.SteadyShare * out.Peak.RunsPerSecond, Seed: steadySeed, InFlight: steadyInFlight}
	sayf("%d clients reach %.0f runs/s; now %.0f arrive a second, for %g s", s.SteadyClients, out.Peak.RunsPerSecond, spec.Arrivals.Rate,
		s.SteadySeconds)
	result, outcome, err := measure.Open(ctx, o.self, on.servers, side, spec)
	if err != nil {
		return nil, 0, err
	}
	millis := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	out.Round, out.Offered = outcome.Samples[0].Round, float64(result.Offered)/s.SteadySeconds
	out.P999, out.InFlight = millis(result.Latencies.Quantile(0.999)), result.InFlight
	out.LateP99, out.LateMax = millis(result.Late.Quantile(0.99)), millis(result.Late.Max())
	return out, peak.Answered[side.Name] + outcome.Answered[side.Name], nil
}

// steady measures arrivals at a share of the peak alone.
type steady struct {
	options
	steadyFlags
}

// Validate is called by kong.
func (s *steady) Validate() error { return errors.Join(s.options.check(), s.steadyFlags.check()) }

// Run measures and writes the report.
func (s *steady) Run(ctx context.Context) error { return s.options.run(ctx, &s.steadyFlags) }
