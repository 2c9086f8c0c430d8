package main

import (
	"context"
	"errors"
	"slices"

	"parley/scripts/bench/internal/report"
)

// automationFlags say how run-automation is measured.
type automationFlags struct {
	Clients []int    `default:"1,16,64,128,512" help:"Numbers of clients, each with one request at a time."`
	Rounds  int      `default:"3" help:"Rounds of each side at each number of clients."`
	Seconds float64  `default:"2.5" help:"Measured time of a round."`
	WarmUp  float64  `name:"warm-up" default:"0.7" help:"Seconds before that, not measured."`
	Sides   []string `default:"floor,parley" enum:"floor,parley" help:"What to measure: floor, parley, or both."`
}

func (a *automationFlags) check() error {
	switch {
	case a.Rounds < 1 || a.Seconds <= 0 || a.WarmUp < 0:
		return errors.New("--rounds and --seconds must be above zero, --warm-up not below")
	case len(a.Clients) == 0 || slices.Min(a.Clients) < 1:
		return errors.New("--clients takes numbers above zero")
	}
	return nil
}

func (a *automationFlags) measure(ctx context.Context, o *options, r *report.Report) (err error) {
	b := &bench{options: o, automationFlags: a}
	defer func() { err = errors.Join(err, b.stop(ctx)) }()
	if err := b.start(ctx); err != nil {
		return err
	}
	return b.measure(ctx, r)
}

// automation measures run-automation alone.
type automation struct {
	options
	automationFlags
}

// Validate is called by kong.
func (a *automation) Validate() error {
	return errors.Join(a.options.check(), a.automationFlags.check())
}

// Run measures and writes the report.
func (a *automation) Run(ctx context.Context) error { return a.options.run(ctx, &a.automationFlags) }

// everything is all measurements, one after the other.
type everything struct {
	options
	automationFlags
	waitingFlags
	codeFlags
	documentFlags
	voiceFlags
	hookFlags
	replayFlags
	steadyFlags
	scaleFlags
	growthFlags
	soakFlags
}

// Validate is called by kong.
func (e *everything) Validate() error {
	return errors.Join(e.options.check(), e.automationFlags.check(), e.waitingFlags.check(), e.codeFlags.check(), e.documentFlags.check(),
		e.voiceFlags.check(), e.hookFlags.check(), e.replayFlags.check(), e.steadyFlags.check(), e.scaleFlags.check(),
		e.growthFlags.check(), e.soakFlags.check())
}

// Run measures and writes the report.
func (e *everything) Run(ctx context.Context) error {
	return e.options.run(ctx, &e.automationFlags, &e.waitingFlags, &e.codeFlags, &e.documentFlags, &e.voiceFlags, &e.hookFlags,
		&e.replayFlags, &e.steadyFlags, &e.scaleFlags, &e.growthFlags, &e.soakFlags)
}
