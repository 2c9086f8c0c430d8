package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	sdk "parley/sdk/go"
	"parley/shared/lifecycle"
)

// code measures how long calls to the tool codeExecution take. The durations come from the runs
// that make the calls.
type code struct {
	Calls  int           `default:"60" help:"Number of calls in a round."`
	Rounds int           `default:"3" help:"Number of rounds."`
	Pause  time.Duration `default:"50ms" help:"Time between two calls."`
}

// program is the measured program. It prints the text in the constant printed.
const (
	program    = "print(6 * 7)"
	printed    = "42"
	unmeasured = 3 // calls at the beginning of a round that are not measured
)

// Measure measures the median duration of a call in each round.
func (c *code) Measure(ctx context.Context, s *loadEnv) error {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return errNoSandbox
	}
	provider := keep(s, model.Start(0))
	p, _, err := s.parley(ctx, "parley", parley.Config{Settings: provider.Settings()})
	if err != nil {
		return err
	}
	agent, err := p.NewAgent(ctx, "Analyst", model.Name, &sdk.ToolsChange{CodeExecution: &sdk.CodeExecutionChange{Enabled: new(true)}})
	if err != nil {
		return err
	}

	var p50s []float64
	for range c.Rounds {
		took := load.NewLatencies()
		for n := range unmeasured + c.Calls {
			d, err := runCode(ctx, p, agent)
			if err != nil {
				return err
			}
			if n >= unmeasured {
				_ = took.RecordValue(d.Nanoseconds()) // runs time out before the histogram's limit
			}
			if err := lifecycle.Sleep(ctx, c.Pause); err != nil {
				return err
			}
		}
		p50s = append(p50s, load.Millis(took, 50))
	}
	s.add("warm sandbox", "call p50 ms", nil, p50s, atMost(10))
	return nil
}

// runCode starts a run that calls the tool once, and returns the duration of the call.
func runCode(ctx context.Context, p *parley.Parley, agent string) (time.Duration, error) {
	run, err := p.Automations.Run(ctx, sdk.AutomationParams{Target: agent, Message: program})
	if err != nil {
		return 0, errors.Join(err, p.Err())
	}
	if len(run.ToolCalls) == 1 {
		call := run.ToolCalls[0]
		if output, ok := call.Output.(map[string]any); ok && output["stdout"] == printed+"\n" {
			return time.Duration(call.DurationMS) * time.Millisecond, nil
		}
	}
	return 0, fmt.Errorf("unexpected result of a run that calls codeExecution: %+v", run)
}
