package speechtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Children returns the pids of this process's children that run one of the given programs.
func Children(programs ...string) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended in the meantime
		}
		head, rest, _ := strings.Cut(string(raw), ") ")
		pid, name, _ := strings.Cut(head, " (")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != os.Getpid() {
			continue
		}
		if slices.ContainsFunc(programs, func(program string) bool { return strings.HasPrefix(filepath.Base(program), name) }) {
			number, _ := strconv.Atoi(pid)
			pids = append(pids, number)
		}
	}
	return pids
}
