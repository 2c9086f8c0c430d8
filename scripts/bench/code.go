package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/model"
	"parley/scripts/bench/internal/parley"
	"parley/shared/lifecycle"
)

// code measures calls of codeExecution, as reported by the runs that make them.
type code struct {
	Calls  int           `default:"60" help:"Calls of each side in a round."`
	Rounds int           `default:"3" help:"Rounds, the sides in turn."`
	Pause  time.Duration `default:"50ms" help:"Time between two calls."`
}

const (
	program = "print(6 * 7)"
	printed = "42"
	// bareSandbox is the floor: the same namespaces, and no limits, system call filter or pool.
	bareSandbox = "--unshare-all --die-with-parent --new-session --clearenv --setenv PATH /usr/bin --cap-drop ALL " +
		"--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev " +
		"--tmpfs /tmp --tmpfs /work --chdir /work /usr/bin/python3 -c"
)

// Name is the name of the load.
func (*code) Name() string { return "code" }

// Measure compares calls with a bare bubblewrap.
func (c *code) Measure(ctx context.Context, s *loadEnv) error {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return errNoSandbox
	}

	provider, err := s.model(ctx, 0)
	if err != nil {
		return err
	}

	p, _, err := s.parley(ctx, "parley", parley.Config{Settings: provider.Settings()})
	if err != nil {
		return err
	}

	agent, err := p.NewAgent(ctx, "Analyst", model.Name, map[string]any{"codeExecution": map[string]any{"enabled": true}})
	if err != nil {
		return err
	}

	var p50s [2][]float64
	for range c.Rounds {
		for i, call := range []func(context.Context) (time.Duration, error){
			func(ctx context.Context) (time.Duration, error) { return runBare(ctx, bwrap) },
			func(ctx context.Context) (time.Duration, error) { return runCode(ctx, p, agent) },
		} {
			p50, err := c.round(ctx, call)
			if err != nil {
				return err
			}
			p50s[i] = append(p50s[i], p50)
		}
	}

	s.add("warm sandbox", "p50 ms of a call", p50s[0], p50s[1], atMost(10))
	return nil
}

// round makes the calls of one side and returns their median duration.
func (c *code) round(ctx context.Context, call func(context.Context) (time.Duration, error)) (float64, error) {
	took := load.NewLatencies()
	const unmeasured = 3
	for n := range unmeasured + c.Calls {
		d, err := call(ctx)
		if err != nil {
			return 0, err
		}
		if n >= unmeasured {
			_ = took.RecordValue(d.Nanoseconds()) // runs time out before the histogram's limit
		}
		if err := lifecycle.Sleep(ctx, c.Pause); err != nil {
			return 0, err
		}
	}
	return load.Millis(took, 50), nil
}

// runBare runs the program in a bare sandbox and returns the time to its output.
func runBare(ctx context.Context, bwrap string) (took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, bwrap, append(strings.Fields(bareSandbox), program)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}

	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}

	first := make([]byte, len(printed))
	_, err = io.ReadFull(out, first)
	took = time.Since(began)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return 0, fmt.Errorf("running bwrap: %w", err)
	}
	return took, nil
}

// runCode makes a run that calls the tool once, and returns the duration of the call.
func runCode(ctx context.Context, p *parley.Parley, agent string) (time.Duration, error) {
	var run struct {
		ToolCalls []struct {
			Status string `json:"status"`
			Output struct {
				Stdout string `json:"stdout"`
			} `json:"output"`
			DurationMS int64 `json:"durationMs"`
		} `json:"toolCalls"`
	}
	if err := p.Ask(ctx, p.Automation(agent, program, rand.Text()), &run); err != nil {
		return 0, err
	}
	if len(run.ToolCalls) != 1 || strings.TrimSpace(run.ToolCalls[0].Output.Stdout) != printed {
		return 0, fmt.Errorf("the run of a program is %+v", run)
	}
	return time.Duration(run.ToolCalls[0].DurationMS) * time.Millisecond, nil
}
