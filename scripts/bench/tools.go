package main

import (
	"context"
	"fmt"

	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
)

// tools compares runs that call an HTTP tool twice, one call after another, with runs that have no
// tools. The same Parley processes execute both kinds.
type tools struct {
	Clients []int   `default:"1,16,64" help:"Numbers of clients, each with one request at a time."`
	Rounds  int     `default:"2" help:"Number of rounds for each kind of run and each number of clients."`
	Seconds float64 `default:"2" help:"Measured seconds per round, after a warm-up of a quarter of that time."`
}

// Measure measures the cost of a tool call. It is the additional cost of a run with calls, divided
// by the number of calls.
func (t *tools) Measure(ctx context.Context, s *loadEnv) error {
	lookup := keep(s, model.StartLookup())
	settings := keep(s, model.Start(0)).Settings()
	settings["OUTBOUND_ALLOW"] = lookup.Address()
	p, _, err := s.parley(ctx, "parley", parley.Config{Settings: settings})
	if err != nil {
		return err
	}
	caller, err := p.NewAgent(ctx, "Caller", model.Name, lookup.Tools())
	if err != nil {
		return err
	}

	c := &comparison{
		closedLoop: closedLoop{t.Clients, t.Rounds, t.Seconds}, unit: "run",
		sides:  [2]side{{"echo", p.Load(p.Agent), "parley", &p.Group}, {"tools", p.Load(caller), "parley", &p.Group}},
		goal:   func(int, string) *goal { return nil },
		settle: idleIn, // the nudge may miss connections that write steps and effects, so wait until they have reported their commits
		more:   []string{"calls/s", "commits/call", "call CPU µs"},
		derive: func(echo, tools values) {
			tools["calls/s"] = tools["runs/s"] * model.LookupCalls
			tools["commits/call"] = (tools["commits/run"] - echo["commits/run"]) / model.LookupCalls
			tools["call CPU µs"] = (tools["run CPU µs"] - echo["run CPU µs"]) / model.LookupCalls
		},
	}
	if err := s.compare(ctx, c); err != nil {
		return err
	}
	if calls := lookup.Calls(); calls != model.LookupCalls*c.answered[1] {
		return fmt.Errorf("%d runs made %d calls in total, want %d", c.answered[1], calls, model.LookupCalls*c.answered[1])
	}
	return nil
}
