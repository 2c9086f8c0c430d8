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
	// spareMemory is added to a sandbox's memory limit. It is for the processes that isolate the
	// sandbox and start its program.
	spareMemory = 64 << 20
	// spareProcesses is added to a sandbox's limit on processes and threads. It is for the
	// processes that isolate the sandbox.
	spareProcesses = 8
)

// memory returns the limit on a cgroup's memory, which includes the files of the sandbox.
func memory(l sandbox.Limits) int64 { return l.Memory + l.Files + spareMemory }

// part is a Root's folder in one hierarchy. In version 1, each hierarchy has one or more
// controllers. In version 2, a single hierarchy has all of them.
type part struct {
	home        string // folder of this process's cgroup
	dir         string // folder that contains the groups
	lock        *os.File
	controllers []string
}

// Root creates groups for this process. It is safe for concurrent use. A process has at most one
// Root, which a backend closes.
type Root struct {
	version int
	// parts has one element for each hierarchy in use.
	parts []part
	// last is the number of the last group, and thereby the name of that group.
	last atomic.Int64

	begin  sync.Once
	thread chan func() // version 1 only; started when first needed
}

// Open finds the folder in which this process may create groups. If there is no such folder, the
// error states the reason in one sentence. Open also removes the groups of processes that no longer
// run. In version 2, it may move this process to another cgroup; see moveToMain.
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

// open tries version 2 and then version 1. Its arguments are the texts of /proc/self/mountinfo and
// /proc/self/cgroup.
func open(mountinfo, own string) (*Root, error) {
	mounts := mountsIn(mountinfo)
	if len(mounts) == 0 {
		return nil, errors.New("no cgroups are mounted")
	}

	var whyNot error

	// Version 2 is preferred. Its errors are reported only if version 1 is not available either.
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
		whyNot = err // version 1 is used if it has the memory controller on this machine
	}
	return nil, whyNot
}

// try creates a group and starts a nonexistent program in it, which requires the same permissions
// as a sandbox. If try fails, it closes the root.
func (r *Root) try() error {
	g, err := r.New(sandbox.Limits{Memory: 64 << 20, Processes: 8})
	if err == nil {
		err = errors.Join(g.trialStart(), g.Remove())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cgroup v%d: %w", r.version, err), r.Close())
	}
	return nil
}

// Version returns the version of the kernel's interface: 1 or 2.
func (r *Root) Version() int { return r.version }

// New creates a group with the given limits; a limit of zero means no limit. The group's memory
// limit is the limit on the program and its files plus 64 MiB. Its limit on processes and threads
// is the program's limit plus 8. Processes in the group may belong to any user.
func (r *Root) New(l sandbox.Limits) (*Group, error) {
	// If one of the steps fails, Remove also removes the folders that were already created.
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
			return nil, errors.Join(fmt.Errorf("creating a cgroup: %w", err), g.Remove())
		}
	}
	return g, nil
}

// Close kills all processes in this process's groups and removes the groups. No group may be used
// afterwards. This process stays in the cgroup to which Open has moved it.
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
