package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"parley/workers/internal/sandbox"
)

// Group is the cgroup of one sandbox. It is safe for concurrent use until it is removed. Root.New
// creates it, and Remove must be called at the end.
type Group struct {
	root *Root
	dirs []string // one folder in each hierarchy that the root uses
}

// Add moves one process into the group; processes that it has started stay outside. Add takes
// milliseconds, because the kernel waits for a moment in which no process forks. Add fails if the
// process has ended. For a process that has not been started, use Start.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("moving process %d to a cgroup: %w", pid, err)
		}
	}
	return nil
}

// Usage returns the usage of all processes in the group, including those that have ended. Processes
// and Memory include the helper processes that isolate the sandbox. Memory excludes files. Files
// and FileCount are not set.
func (g *Group) Usage() (u sandbox.Usage, err error) {
	// In version 1, each controller reports its part of the usage.
	for i, dir := range g.dirs {
		if g.root.version == 2 {
			err = errors.Join(err, usageV2(dir, &u))
			continue
		}
		for _, controller := range g.root.parts[i].controllers {
			err = errors.Join(err, usageV1(dir, controller, &u))
		}
	}
	if err != nil {
		return u, fmt.Errorf("reading usage of a cgroup: %w", err)
	}
	return u, nil
}

// GiveWay reduces the group's share of the processors to a tenth. It has no effect if the kernel
// does not schedule by cgroup.
func (g *Group) GiveWay() error {
	var all []error
	for i, dir := range g.dirs {
		switch {
		case !slices.Contains(g.root.parts[i].controllers, "cpu"):
		case g.root.version == 2:
			all = append(all, write(dir, "cpu.weight", strconv.Itoa(cpuWeight/10)))
		default:
			all = append(all, write(dir, "cpu.shares", strconv.Itoa(cpuShares/10)))
		}
	}
	return errors.Join(all...)
}

// Pids lists the processes in the group, without zombies.
func (g *Group) Pids() ([]int, error) { return pidsIn(g.dirs[0]) }

// Kill kills all processes in the group and waits until they are gone, usually within milliseconds.
// It returns an error if a process is still alive after killTime. After Kill, no process can be
// started in the group.
func (g *Group) Kill() error {
	var all []error
	for _, dir := range g.dirs { // prevent forks in all hierarchies, because a process may have joined only some of them
		_ = writeIfThere(dir, "pids.max", "0") // prevent forks first; the file exists only in the hierarchy with the pids controller
	}
	for _, dir := range g.dirs {
		all = append(all, end(dir))
	}
	return errors.Join(all...)
}

// Remove kills the remaining processes and removes the group. It may be called more than once. If
// it fails, Root.Close or the next process that opens a Root removes the group.
func (g *Group) Remove() error {
	if err := g.Kill(); err != nil {
		return err
	}
	var all []error
	for _, dir := range g.dirs {
		all = append(all, removeTree(dir))
	}
	return errors.Join(all...)
}
