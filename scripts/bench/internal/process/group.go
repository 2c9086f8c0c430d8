package process

import (
	"errors"
	"slices"
	"time"
)

// Group contains the processes of one service that the bench measures. The zero value is empty. It
// is not safe for concurrent use.
type Group struct {
	processes []*Process
}

// End stops a process and removes it from the group.
func (g *Group) End(p *Process) error {
	g.processes = slices.DeleteFunc(g.processes, func(other *Process) bool { return other == p })
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

// Processes returns the processes in the order in which they were started.
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
