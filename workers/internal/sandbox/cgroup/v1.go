package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"parley/workers/internal/sandbox"
)

// openV1 creates this process's folder in each required hierarchy: pids, memory and cpuacct, and
// cpu if possible. If it fails, no folder is left.
func openV1(mounts []mount, own string) (*Root, error) {
	r := &Root{version: 1}
	for _, controller := range []string{"pids", "memory", "cpuacct", "cpu"} { // pids first: a process that cannot fork cannot escape a kill
		dir, found, err := home(mounts, own, controller)
		if err == nil && !found {
			err = errors.New("not supported by the kernel")
		}
		if err == nil {
			err = r.join(dir, controller)
		}
		if err == nil || controller == "cpu" { // the cpu controller is optional, because nice has a similar effect
			continue
		}
		_ = r.Close() // nothing is left running, because the folders contain no processes
		return nil, fmt.Errorf("cgroup v1, controller %s: %w", controller, err)
	}
	return r, nil
}

// join adds a controller, which may share a hierarchy with other controllers. dir is the folder of
// this process's cgroup in the hierarchy of the controller.
func (r *Root) join(dir, controller string) error {
	// Many systems mount cpu and cpuacct as one hierarchy.
	if i := slices.IndexFunc(r.parts, func(p part) bool { return p.home == dir }); i >= 0 {
		r.parts[i].controllers = append(r.parts[i].controllers, controller)
		return nil
	}
	clean(dir)
	made, lock, err := claim(dir)
	if err == nil {
		r.parts = append(r.parts, part{home: dir, dir: made, lock: lock, controllers: []string{controller}})
	}
	return err
}

// cpuShares is each group's share of the processors. The default for other cgroups is 1024.
const cpuShares = 256

// limitV1 sets the limits of a folder's controllers. A limit of zero is not set. A sandbox never
// uses swap.
func limitV1(dir string, controllers []string, l sandbox.Limits) error {
	var all []error
	if slices.Contains(controllers, "memory") && l.Memory > 0 {
		limit := strconv.FormatInt(memory(l), 10)
		all = append(all,
			write(dir, "memory.limit_in_bytes", limit),
			writeIfThere(dir, "memory.memsw.limit_in_bytes", limit), // memory plus swap has the same limit as memory, so no swap is used
			writeIfThere(dir, "memory.swappiness", "0"))             // this file is missing in kernels that do not count swap
	}
	if slices.Contains(controllers, "pids") && l.Processes > 0 {
		all = append(all, write(dir, "pids.max", strconv.Itoa(l.Processes+spareProcesses)))
	}
	if slices.Contains(controllers, "cpu") {
		all = append(all, write(dir, "cpu.shares", strconv.Itoa(cpuShares)))
	}
	return errors.Join(all...)
}

// usageV1 reads the usage from a controller's folder into the fields of u that the controller
// measures.
func usageV1(dir, controller string, u *sandbox.Usage) error {
	switch controller {
	case "memory":
		// The kernel counts the page cache as memory. The page cache is subtracted, because
		// Usage.Memory does not include files.
		all, err := number(dir, "memory.usage_in_bytes")
		files, err2 := keyed(dir, "memory.stat", "total_cache")
		ended, err3 := keyed(dir, "memory.oom_control", "oom_kill")
		u.Memory, u.OutOfMem = max(0, all-files), ended > 0
		return errors.Join(err, err2, err3)
	case "pids":
		n, err := number(dir, "pids.current")
		u.Processes = int(n)
		return err
	case "cpuacct":
		n, err := number(dir, "cpuacct.usage")
		u.CPU = time.Duration(n)
		return err
	default:
		return nil
	}
}
