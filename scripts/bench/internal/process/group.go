package process

import (
	"context"
	"errors"
	"fmt"
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

// Restart ends a process of the group and starts it anew; the new one takes its place.
func (g *Group) Restart(ctx context.Context, p *Process) (*Process, error) {
	at := slices.Index(g.processes, p)
	if at < 0 {
		return nil, fmt.Errorf("%s is none of these processes", p.Name)
	}
	if err := p.Stop(); err != nil {
		return nil, err
	}
	next, err := Start(ctx, p.config)
	if err != nil {
		g.processes = slices.Delete(g.processes, at, at+1)
		return nil, err
	}
	g.processes[at] = next
	return next, nil
}

// End ends a process of the group for good.
func (g *Group) End(p *Process) error {
	at := slices.Index(g.processes, p)
	if at < 0 {
		return fmt.Errorf("%s is none of these processes", p.Name)
	}
	g.processes = slices.Delete(g.processes, at, at+1)
	return p.Stop()
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
