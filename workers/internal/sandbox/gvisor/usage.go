package gvisor

import (
	"math"

	"parley/workers/internal/sandbox"
)

// Usage returns the sandbox's current usage, or its final usage once it has ended.
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
	u.CPU = max(u.CPU, x.last.CPU) // the CPU time of processes that have ended is otherwise lost
	x.last = u
	return u, nil
}

// usage returns the usage as measured on the host. The number of processes is omitted, because it
// is gVisor's and not the sandbox's.
func (x *box) usage() (u sandbox.Usage, err error) {
	if x.group != nil {
		u, err = x.group.Usage()
	} else {
		u, err = x.tree.Usage(math.MaxInt64)
	}
	u.Processes = 0
	return u, err
}

// settleUsage reads the final usage, which a cgroup still has after all its processes have ended.
// The memory is the last value measured.
func (x *box) settleUsage() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u, err := x.usage(); err == nil {
		x.last.CPU = max(x.last.CPU, u.CPU)
		x.last.OutOfMem = u.OutOfMem
	}
	x.final = true
}
