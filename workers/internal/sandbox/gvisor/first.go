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
	findTime = 5 * time.Second
	findPoll = time.Millisecond
)

// findFirst waits until unshare has started runsc, the first process of the sandbox's namespace, and takes a hold on it (a pidfd), so
// that never another process is killed. nil is that there is none, or none any more. unshare must not be waited for before: until then
// its number is its own.
func findFirst(unshare int, tree proctree.Tree) *os.Process {
	tick := time.NewTicker(findPoll)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < findTime; <-tick.C {
		child := childFor(unshare, tree)
		if child == 0 {
			if pids, err := tree.Pids(); err == nil && len(pids) == 0 {
				return nil // it has ended
			}
			continue
		}
		held, err := os.FindProcess(child)
		if err != nil {
			continue // gone
		}
		if childFor(unshare, tree) == child { // still, so the hold is on it
			return held
		}
		_ = held.Release() // of another's
	}
	return nil
}

// childFor is the number of unshare's only child; 0 is that there is none.
func childFor(unshare int, tree proctree.Tree) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", unshare, unshare))
	if err == nil {
		child, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 when there is none
		return child
	}
	pids, err := tree.Pids() // on kernels without that file
	if err != nil || len(pids) < 2 {
		return 0
	}
	return pids[1]
}
