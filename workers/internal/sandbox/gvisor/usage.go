package gvisor

import (
	"math"

	"parley/workers/internal/sandbox"
)

// Usage is what the sandbox uses; once it has ended, what it used at last.
func (x *box) Usage() (sandbox.Usage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return x.last, nil
	}
	u, err := x.usage()
	if err != nil {
		return x.last, err
	}
	if bytes, ok := x.sentryMemory(); ok {
		u.Memory = bytes
	}
	u.CPU = max(u.CPU, x.last.CPU) // what is counted by process is gone with it
	x.last = u
	return u, nil
}

// usage is what the host tells. Its processes are not the sandbox's, so their number says nothing.
func (x *box) usage() (u sandbox.Usage, err error) {
	if x.group != nil {
		u, err = x.group.Usage()
	} else {
		u, err = x.tree.Usage(math.MaxInt64)
	}
	u.Processes = 0
	return u, err
}

// settleUsage takes the last numbers, which a cgroup still has when all in it are dead, whichever of them the kernel has ended; the
// memory is what was seen last.
func (x *box) settleUsage() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u, err := x.usage(); err == nil {
		x.last.CPU = max(x.last.CPU, u.CPU)
		x.last.OutOfMem = u.OutOfMem
	}
	x.over = true
}
