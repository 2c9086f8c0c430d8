package gvisor

import (
	"math"

	"parley/workers/internal/sandbox"
)

// Usage returns the sandbox's current usage or, if the sandbox has ended, its final usage. If a
// measurement fails, Usage returns the last usage together with the error. The size and number of
// files are unknown, because files count as memory.
func (x *box) Usage() (sandbox.Usage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.final {
		return x.last, nil
	}
	u, err := x.usage()
	if err != nil {
		return x.last, err
	}
	if bytes, ok := x.sentryMemory(); ok {
		u.Memory = bytes
	}
	u.CPU = max(u.CPU, x.last.CPU) // keep the CPU time of processes that have exited
	x.last = u
	return u, nil
}

// usage returns the usage measured on the host. It omits the number of processes, because on the
// host these are the processes of gVisor and not of the program.
func (x *box) usage() (u sandbox.Usage, err error) {
	if x.group != nil {
		u, err = x.group.Usage()
	} else {
		u, err = x.tree.Usage(math.MaxInt64)
	}
	u.Processes = 0
	return u, err
}

// finalizeUsage stores the final usage. A cgroup still reports the CPU time after all of its
// processes have exited, but not the memory. For memory, the last measured value is used.
func (x *box) finalizeUsage() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u, err := x.usage(); err == nil {
		x.last.CPU = max(x.last.CPU, u.CPU)
		x.last.OutOfMem = u.OutOfMem
	}
	x.final = true
}
