package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"parley/workers/internal/sandbox"
)

// Group is a cgroup for one sandbox; safe for concurrent use until it is removed.
type Group struct {
	root *Root
	dirs []string // one for each part of the root
}

// Add moves a process into the group; what it started before stays outside. It takes some milliseconds, for the kernel waits until
// no process forks: Start is the way for what is not started yet.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := write(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("moving process %d to a cgroup: %w", pid, err)
		}
	}
	return nil
}

// Usage is what all processes in the group use, and what isolates them: Processes and Memory count that as well.
func (g *Group) Usage() (u sandbox.Usage, err error) {
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

// GiveWay gives the group a tenth of the share of processors that others have. It changes nothing where the kernel does not share them by
// group.
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

// Kill ends everything in the group, and returns when nothing of it lives: after milliseconds. That something lives after seconds is
// an error. Nothing can be started in the group afterwards.
func (g *Group) Kill() error {
	var all []error
	for _, dir := range g.dirs { // all of them: what one process was added to only in part is in some
		_ = writeIfThere(dir, "pids.max", "0") // before any is killed, wherever that controller is
	}
	for _, dir := range g.dirs {
		all = append(all, end(dir))
	}
	return errors.Join(all...)
}

// Remove kills what is left in the group and removes it. It may be called again.
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
