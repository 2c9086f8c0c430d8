package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// memoryFile is the path that /proc shows for the sentry's memory file, which contains all memory
// and files of a sandbox.
const memoryFile = "/memfd:runsc-memory"

// blockSize is the unit in which stat counts a file's blocks.
const blockSize = 512

// sentryMemory returns the size of the sentry's memory file. The size includes the program's memory
// and files, but not gVisor's own memory. ok is false if the file cannot be found, for example just
// after the start. The caller must hold x.mu.
func (x *box) sentryMemory() (bytes int64, ok bool) {
	for range 2 { // search again if the file found earlier has disappeared
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

// hostPids returns all processes of the sandbox on the host.
func (x *box) hostPids() []int {
	var pids []int
	if x.group != nil {
		pids, _ = x.group.Pids() // the list is empty before the start and after the end
	} else {
		pids, _ = x.tree.Pids()
	}
	return pids
}

// findMemory finds the memory file among the open files of the given processes. It returns its path
// in /proc, or "".
func findMemory(pids []int) string {
	for _, pid := range pids {
		folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		open, err := os.ReadDir(folder)
		if err != nil {
			continue // the process has ended
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
