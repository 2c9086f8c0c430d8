package gvisor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"parley/workers/internal/sandbox/proctree"
)

const (
	// findTime limits the wait for runsc, which unshare starts within milliseconds on an idle
	// machine.
	findTime = 5 * time.Second
	findPoll = time.Millisecond
)

// findRunsc waits until unshare has started runsc, and returns a handle for runsc (a pidfd). A
// handle never refers to another process that has reused the pid. findRunsc returns nil if runsc
// has ended, or if it was not started within findTime. unshare must not be reaped before findRunsc
// returns, because its own pid could then be reused.
func findRunsc(unshare int, tree proctree.Tree) *os.Process {
	tick := time.NewTicker(findPoll)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < findTime; <-tick.C {
		// Before the handle is opened, the process may end and its pid may be reused. So the
		// child's pid is read again afterwards.
		child := childFor(unshare, tree)
		if child == 0 {
			if pids, err := tree.Pids(); err == nil && len(pids) == 0 {
				return nil // unshare has ended
			}
			continue
		}
		held, err := os.FindProcess(child)
		if err != nil {
			continue // the process has ended
		}
		if childFor(unshare, tree) == child { // still the same child, so the handle refers to it
			return held
		}
		_ = held.Release() // the handle belongs to another process
	}
	return nil
}

// childFor returns the pid of the only child of unshare, or 0 if there is none.
func childFor(unshare int, tree proctree.Tree) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
	if err == nil {
		child, _ := strconv.Atoi(strings.TrimSpace(string(text))) // the result is 0 if unshare has no child
		return child
	}
	pids, err := tree.Pids() // some kernels do not list the children of a process in /proc
	if err != nil || len(pids) < 2 {
		return 0
	}
	return pids[1]
}
