package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// memoryFile is what the sentry calls the file in memory that holds all of the sandbox's memory and files.
const memoryFile = "/memfd:runsc-memory"

// blockSize is the unit of a file's blocks in stat, whatever its file system's is.
const blockSize = 512

// sentryMemory is what the sentry's memory file takes: the program's memory and its files, nothing of gVisor's own. It holds x.mu.
func (x *box) sentryMemory() (bytes int64, ok bool) {
	for range 2 { // again when what was found is gone
		if x.memory == "" {
			x.memory = findMemory(x.hostPids())
		}
		if x.memory == "" {
			return 0, false
		}
		var s syscall.Stat_t
		if err := syscall.Stat(x.memory, &s); err == nil {
			return s.Blocks * blockSize, true
		}
		x.memory = ""
	}
	return 0, false
}

// hostPids are all processes that the sandbox is made of.
func (x *box) hostPids() []int {
	var pids []int
	if x.group != nil {
		pids, _ = x.group.Pids() // none is known yet, or any more
	} else {
		pids, _ = x.tree.Pids()
	}
	return pids
}

// findMemory finds the memory file among what processes have open.
func findMemory(pids []int) string {
	for _, pid := range pids {
		folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		open, err := os.ReadDir(folder)
		if err != nil {
			continue // gone
		}
		for _, fd := range open {
			name := filepath.Join(folder, fd.Name())
			if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, memoryFile) {
				return name
			}
		}
	}
	return ""
}
