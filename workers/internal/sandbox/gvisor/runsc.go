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
	// unshare starts runsc within milliseconds. On a busy machine it may take longer.
	findTime = 5 * time.Second
	findPoll = time.Millisecond
)

// findRunsc waits until unshare has started runsc, the first process of the sandbox's namespace. It
// returns a handle for runsc (a pidfd), so that another process with a reused pid is never killed.
// It returns nil if runsc has ended. unshare must not be reaped before findRunsc returns, because
// its own pid could then be reused.
func findRunsc(unshare int, tree proctree.Tree) *os.Process {
	tick := time.NewTicker(findPoll)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < findTime; <-tick.C {
		// Between reading the pid and opening the handle, the process may end and its pid may be
		// reused. So the child is read again after the handle is open.
		child := childFor(unshare, tree)
		if child == 0 {
			if pids, err := tree.Pids(); err == nil && len(pids) == 0 {
				return nil // it has ended
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
		_ = held.Release() // it belongs to another process
	}
	return nil
}

// childFor returns the pid of the only child of unshare, or 0 if there is none.
func childFor(unshare int, tree proctree.Tree) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
	if err == nil {
		child, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 if there is none
		return child
	}
	pids, err := tree.Pids() // some kernels lack that file
	if err != nil || len(pids) < 2 {
		return 0
	}
	return pids[1]
}
