package process

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/scripts/bench/internal/machine"
)

// Group is the processes of one side, or the servers that both stand on; the zero value is empty.
type Group struct {
	processes []*Process
}

// Start starts a process and keeps it.
func (g *Group) Start(ctx context.Context, c Config) (*Process, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return nil, err
	}
	g.processes = append(g.processes, p)
	return p, nil
}

// CPU is the CPU time that each process has taken, by name.
func (g *Group) CPU() (map[string]time.Duration, error) {
	out := make(map[string]time.Duration, len(g.processes))
	for _, p := range g.processes {
		used, err := machine.CPU(p.PID())
		if err != nil {
			return nil, err
		}
		out[p.Name] = used
	}
	return out, nil
}

// Processes are those that were started, in order.
func (g *Group) Processes() []*Process { return g.processes }

// Err tells which processes have ended by themselves, if any.
func (g *Group) Err() error {
	var errs []error
	for _, p := range g.processes {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// Stop ends all, the last one first.
func (g *Group) Stop() error {
	var errs []error
	for _, p := range slices.Backward(g.processes) {
		errs = append(errs, p.Stop())
	}
	g.processes = nil
	return errors.Join(errs...)
}
