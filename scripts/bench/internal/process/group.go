package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Group contains the processes of one service that the bench measures. The zero value is empty.
type Group struct {
	processes []*Process
}

// Start starts a process and adds it to the group.
func (g *Group) Start(ctx context.Context, c Config) (*Process, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return nil, err
	}
	g.processes = append(g.processes, p)
	return p, nil
}

// End stops a process and removes it from the group.
func (g *Group) End(p *Process) error {
	at := slices.Index(g.processes, p)
	if at < 0 {
		return fmt.Errorf("the process %s does not belong to this group", p.Name)
	}
	g.processes = slices.Delete(g.processes, at, at+1)
	return p.Stop()
}

// CPU returns the CPU time of each process, by name.
func (g *Group) CPU() (map[string]time.Duration, error) {
	out := make(map[string]time.Duration, len(g.processes))
	for _, p := range g.processes {
		used, err := CPU(p.PID())
		if err != nil {
			return nil, err
		}
		out[p.Name] = used
	}
	return out, nil
}

// Processes returns the processes in the order they were started.
func (g *Group) Processes() []*Process { return g.processes }

// Err returns an error for each process that ended without being stopped.
func (g *Group) Err() error {
	var errs []error
	for _, p := range g.processes {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// Stop stops all processes, the last one first.
func (g *Group) Stop() error {
	var errs []error
	for _, p := range slices.Backward(g.processes) {
		errs = append(errs, p.Stop())
	}
	g.processes = nil
	return errors.Join(errs...)
}
