package proctree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
)

// Tree is a process and all processes that it has started. It is a value that identifies the first
// process; the other processes are found again for each operation.
type Tree struct {
	pid   int
	start uint64
}

// Of returns the tree of a process. It must be called before the process is reaped, preferably
// right after the process was started.
func Of(pid int) (Tree, error) {
	p, err := readProcess(pid)
	if err != nil {
		return Tree{}, fmt.Errorf("looking for process %d: %w", pid, err)
	}
	return Tree{pid: pid, start: p.start}, nil
}

// Pids lists the live processes of the tree. The first process of the tree comes first.
func (t Tree) Pids() ([]int, error) {
	members, err := t.members(nil)
	var pids []int
	for _, p := range members {
		if !p.gone() {
			pids = append(pids, p.pid)
		}
	}
	return pids, err
}

// members lists the processes of the tree, including zombies, each after its parent. The argument
// others contains processes that were found in the tree earlier. The list includes their
// descendants. If all processes have ended, the list is empty, without an error. The error means
// that /proc cannot be read.
func (t Tree) members(others map[int]process) ([]process, error) {
	every, err := allProcesses()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}

	// The first process is the one with the tree's pid and start time. All other processes are
	// found through their parents.
	children := make(map[int][]process, len(every))
	var members []process
	for _, p := range every {
		other, is := others[p.pid]
		if p.pid == t.pid && p.start == t.start || is && other.start == p.start {
			members = append(members, p)
			continue
		}
		children[p.parent] = append(children[p.parent], p)
	}
	for i := 0; i < len(members); i++ { // members grows during the loop
		members = append(members, children[members[i].pid]...)
		delete(children, members[i].pid) // a pid that was reused during the reading must not form a cycle
	}
	return members, nil
}

// Usage returns the usage of the whole tree. Memory does not include files. Shared memory is
// counted once for each process. If the sum exceeds the given number of bytes, Usage measures again
// and counts shared memory once, which takes longer. CPU includes only processes that are alive or
// whose parents have reaped them.
func (t Tree) Usage(enough int64) (u sandbox.Usage, err error) {
	members, err := t.members(nil)
	for _, p := range members {
		u.CPU += p.cpu
		if p.gone() {
			continue
		}
		u.Processes += p.threads
		u.Memory += memory(p.pid, "status", "RssAnon:", "RssShmem:")
	}

	if u.Memory <= enough {
		return u, err
	}

	// The exact measurement reads all page tables of a process, so it is made only if the first
	// measurement exceeds the limit.
	var once int64
	for _, p := range members {
		exact := memory(p.pid, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:")
		if exact == 0 { // the process has ended, or its exact memory is not readable
			exact = memory(p.pid, "status", "RssAnon:", "RssShmem:")
		}
		once += exact
	}

	u.Memory = once
	return u, err
}

// memory reads a file in /proc/<pid> and returns the sum of the values of the given keys, in bytes.
// It returns 0 if the file cannot be read.
func memory(pid int, file string, keys ...string) (bytes int64) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		for _, key := range keys {
			rest, is := strings.CutPrefix(line, key)
			if !is {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				bytes += n << 10
			}
		}
	}
	return bytes
}

// errAlive means that the processes of a tree did not end in time.
var errAlive = errors.New("processes are still running")
