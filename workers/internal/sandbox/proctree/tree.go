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

// Tree is a process and all that it has started.
type Tree struct {
	pid   int
	start uint64
}

// Of is the tree of a process, which must not have been waited for yet: ask right after its start.
func Of(pid int) (Tree, error) {
	p, err := look(pid)
	if err != nil {
		return Tree{}, fmt.Errorf("looking for process %d: %w", pid, err)
	}
	return Tree{pid: pid, start: p.start}, nil
}

// Pids lists the processes of the tree that live, its first one first.
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

// members lists the processes of the tree, zombies too, each behind its parent, and those below others that were in it once. None
// is no error: all are gone.
func (t Tree) members(others map[int]process) ([]process, error) {
	every, err := all()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
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
	for i := 0; i < len(members); i++ { // it grows meanwhile
		members = append(members, children[members[i].pid]...)
		delete(children, members[i].pid) // numbers given again while we read must not make it a circle
	}
	return members, nil
}

// Usage is what the tree uses. The memory is that of no file, but what processes share among them is counted for each, unless that
// exceeds enough: then it is counted once, which takes longer.
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
	var once int64
	for _, p := range members {
		exact := memory(p.pid, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:")
		if exact == 0 { // not ours to read, or gone
			exact = memory(p.pid, "status", "RssAnon:", "RssShmem:")
		}
		once += exact
	}
	u.Memory = once
	return u, err
}

// memory sums lines of a file in /proc/<pid>, which are in KiB; 0 when it cannot be read.
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

// errAlive is that a tree did not end in time.
var errAlive = errors.New("processes are still running")
