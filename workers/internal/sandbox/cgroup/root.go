package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"parley/workers/internal/sandbox"
)

const (
	// spareMemory is what a sandbox needs besides its program's memory and files: what isolates it, and what starts the program.
	spareMemory = 64 << 20
	// spareProcesses is the same, of processes and threads.
	spareProcesses = 8
)

// memory is the limit of all memory: files in a sandbox are memory as well.
func memory(l sandbox.Limits) int64 { return l.Memory + l.Files + spareMemory }

// part is what a Root has in one hierarchy. Version 1 has a hierarchy for each controller or some of them, version 2 one for all.
type part struct {
	home        string // the cgroup that this process lives in
	dir         string // the folder of its groups
	lock        *os.File
	controllers []string
}

// Root is where this process makes groups.
type Root struct {
	version int
	parts   []part
	last    atomic.Int64

	begin  sync.Once
	thread chan func() // version 1 only, and only when it is needed
}

// Open finds where this process may make groups, and removes what dead processes have left there. The error says in one
// sentence why there is no such place.
func Open() (*Root, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, errors.New("this system has no cgroups: /proc/self/mountinfo cannot be read")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, errors.New("this system has no cgroups: /proc/self/cgroup cannot be read")
	}
	return open(string(mountinfo), string(own))
}

func open(mountinfo, own string) (*Root, error) {
	mounts := mountsIn(mountinfo)
	if len(mounts) == 0 {
		return nil, errors.New("no cgroups are mounted")
	}
	var whyNot error
	dir, found, err := home(mounts, own, "")
	if err == nil && found {
		var r *Root
		if r, err = openV2(dir); err == nil {
			return r, r.try()
		}
	}
	if err != nil {
		whyNot = fmt.Errorf("cgroup v2: %w", err)
	}
	if _, found, _ := home(mounts, own, "memory"); found || whyNot == nil {
		var r *Root
		if r, err = openV1(mounts, own); err == nil {
			return r, r.try()
		}
		whyNot = err // where version 1 has the memory, it is what the machine uses
	}
	return nil, whyNot
}

// try makes a group and starts nothing in it, which needs all that is needed later.
func (r *Root) try() error {
	g, err := r.New(sandbox.Limits{Memory: 64 << 20, Processes: 8})
	if err == nil {
		err = errors.Join(g.startNothing(), g.Remove())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cgroup v%d: %w", r.version, err), r.Close())
	}
	return nil
}

// Version is that of the kernel's interface: 1 or 2.
func (r *Root) Version() int { return r.version }

// New makes a group with these limits; those that are zero are none. Memory is limited to that of the program and its files
// and 64 MiB; processes and threads to those of the program and 8. What is started in the group need not be root's.
func (r *Root) New(l sandbox.Limits) (*Group, error) {
	g := &Group{root: r}
	name := strconv.FormatInt(r.last.Add(1), 10)
	for _, p := range r.parts {
		dir := filepath.Join(p.dir, name)
		err := os.Mkdir(dir, 0o755) //nolint:gosec // G301: the kernel's own mode of cgroups
		if err == nil {
			g.dirs = append(g.dirs, dir)
			if r.version == 2 {
				err = limitV2(dir, p.controllers, l)
			} else {
				err = limitV1(dir, p.controllers, l)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making a cgroup: %w", err), g.Remove())
		}
	}
	return g, nil
}

// Close removes the folder of this process's groups, and ends what is left in them. No group may be used any more.
func (r *Root) Close() error {
	var all []error
	for _, p := range r.parts {
		all = append(all, end(p.dir), removeTree(p.dir), p.lock.Close())
	}
	r.parts = nil
	if r.thread != nil {
		close(r.thread)
		r.thread = nil
	}
	return errors.Join(all...)
}
