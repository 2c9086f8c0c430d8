package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"parley/workers/internal/sandbox"
)

// openV2 creates this process's folder below own, the cgroup of this process. If an earlier process
// of Parley has already moved to parley-main, the folder is created next to parley-main. If openV2
// fails, it undoes its changes. The error names the missing permission or controller.
func openV2(own string) (*Root, error) {
	base := own
	if filepath.Base(own) == mainName {
		base = filepath.Dir(own)
	}

	give, err := delegable(base)
	if err != nil {
		return nil, err
	}

	// Folders of dead processes are removed first, because their groups may still contain
	// processes.
	clean(base)
	dir, lock, err := claim(base)
	if err != nil {
		return nil, err
	}

	r := &Root{version: 2, parts: []part{{home: own, dir: dir, lock: lock, controllers: give}}}

	// A cgroup below the root may contain either processes or controllers for its children. So the
	// processes move to another cgroup before the controllers are enabled.
	undo := func() {}
	if own == base && isDelegate(base) {
		undo, err = moveToMain(base)
		r.parts[0].home = filepath.Join(base, mainName)
	}

	if err == nil {
		err = errors.Join(delegate(base, give), delegate(dir, give))
	}
	if err != nil {
		undo()
		_ = r.Close() // the folder contains no processes
		return nil, err
	}
	return r, nil
}

// delegable lists the controllers that a cgroup can make available to the cgroups below it. It
// fails if memory or pids is not among them.
func delegable(base string) (give []string, err error) {
	have := words(base, "cgroup.controllers")
	for _, needed := range []string{"memory", "pids"} {
		if !slices.Contains(have, needed) {
			return nil, fmt.Errorf("the controller %s is not delegated to %s", needed, base)
		}
		give = append(give, needed)
	}
	if slices.Contains(have, "cpu") { // the cpu controller is optional, because nice has a similar effect
		give = append(give, "cpu")
	}
	if kind := strings.Join(words(base, "cgroup.type"), " "); kind != "" && kind != "domain" {
		return nil, fmt.Errorf("%s is not a domain cgroup (its type is %s)", base, kind)
	}
	return give, nil
}

// isDelegate reports whether a cgroup that delegates controllers must not contain processes. This
// is true for every cgroup except the root.
func isDelegate(base string) bool {
	_, err := os.Stat(filepath.Join(base, "cgroup.type"))
	return !errors.Is(err, fs.ErrNotExist)
}

// delegate makes the controllers in give available to the cgroups directly below dir. It fails if
// dir contains processes.
func delegate(dir string, give []string) error {
	// A controller that is already enabled, for example by another process of Parley, needs no
	// permission.
	have := words(dir, "cgroup.subtree_control")
	for _, controller := range give {
		if slices.Contains(have, controller) {
			continue
		}
		err := write(dir, "cgroup.subtree_control", "+"+controller)
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("%s contains processes, so its child cgroups get no controllers", dir)
		}
		if err != nil {
			return fmt.Errorf("delegating the controller %s to the child cgroups of %s: %w", controller, dir, reason(err))
		}
	}
	return nil
}

// moveToMain moves this process and the processes that it has started from the cgroup base to the
// cgroup parley-main below it. If base contains any other process, moveToMain fails without moving
// a process, because the owner of the other process may depend on the cgroup. undo moves the
// processes back.
func moveToMain(base string) (undo func(), err error) {
	undo = func() {}
	target := filepath.Join(base, mainName)
	if err := os.Mkdir(target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // G301: the kernel's own mode of cgroups
		return undo, fmt.Errorf("creating a cgroup in %s: %w", base, reason(err))
	}
	var moved []int
	undo = func() {
		for _, pid := range moved {
			_ = write(base, "cgroup.procs", strconv.Itoa(pid)) // a process that has ended need not be moved
		}
		_ = syscall.Rmdir(target) // fails if the cgroup contains another process of Parley
	}

	for range 5 { // processes that are started in the meantime are found in the next iteration
		pids, err := directPids(base)
		if err != nil {
			return undo, err
		}
		if len(pids) == 0 {
			return undo, nil
		}
		if err := checkProcesses(base, pids); err != nil {
			return undo, err
		}
		for _, pid := range pids {
			if err := write(target, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return undo, fmt.Errorf("moving process %d to %s: %w", pid, target, reason(err))
			}
			moved = append(moved, pid)
		}
	}
	return undo, fmt.Errorf("new processes were started in %s while its processes were moved", base)
}

// directPids lists the processes of the cgroup base, without those of the cgroups below it.
func directPids(base string) (pids []int, err error) {
	for _, word := range words(base, "cgroup.procs") {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("reading cgroup.procs: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// checkProcesses returns an error if pids contains a process other than this process and its
// descendants. The error names the first such process.
func checkProcesses(base string, pids []int) error {
	for _, pid := range pids {
		for parent := pid; parent != os.Getpid(); {
			if parent = parentFor(parent); parent <= 0 {
				return fmt.Errorf("process %d%s is also in %s: Parley needs a separate cgroup, for example as a service with Delegate=yes "+
					"(systemd-run --user --scope -p Delegate=yes …) or in a container", pid, named(pid), base)
			}
		}
	}
	return nil
}

// parentFor returns the pid of a process's parent, or 0 if it has no parent or has ended.
func parentFor(pid int) int {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	text := string(stat)
	field := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the process name before it may contain spaces and parentheses
	if len(field) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(field[1])
	if err != nil {
		return 0
	}
	return parent
}

// named returns the name of a process in parentheses for an error message, or "" if the process has
// ended.
func named(pid int) string {
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}

// cpuWeight is the weight of each sandbox when the kernel distributes processor time.
const cpuWeight = 100

// limitV2 sets the limits of a folder's controllers. A limit of zero is not set. A sandbox never
// uses swap.
func limitV2(dir string, controllers []string, l sandbox.Limits) error {
	var all []error
	if l.Memory > 0 {
		all = append(all, write(dir, "memory.max", strconv.FormatInt(memory(l), 10)), writeIfThere(dir, "memory.swap.max", "0"))
	}
	if l.Processes > 0 {
		all = append(all, write(dir, "pids.max", strconv.Itoa(l.Processes+spareProcesses)))
	}
	if slices.Contains(controllers, "cpu") {
		all = append(all, write(dir, "cpu.weight", strconv.Itoa(cpuWeight)))
	}
	return errors.Join(all...)
}

// usageV2 reads a group's usage into u. Values that cannot be read are part of the error.
func usageV2(dir string, u *sandbox.Usage) error {
	// memory.current includes the page cache and files in memory. Both are subtracted, because
	// Usage.Memory does not include files.
	all, err := number(dir, "memory.current")
	files, err2 := keyed(dir, "memory.stat", "file")
	ended, err3 := keyed(dir, "memory.events", "oom_kill")
	processes, err4 := number(dir, "pids.current")
	micros, err5 := keyed(dir, "cpu.stat", "usage_usec")
	u.Memory, u.OutOfMem, u.Processes = max(0, all-files), ended > 0, int(processes)
	u.CPU = time.Duration(micros) * time.Microsecond
	return errors.Join(err, err2, err3, err4, err5)
}
