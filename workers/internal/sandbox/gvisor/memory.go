package gvisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// memoryFile is the sentry's name of the memory file that contains all of the sandbox's memory and
// files.
const memoryFile = "/memfd:runsc-memory"

// blockSize is the unit of a file's block count in stat.
const blockSize = 512

// sentryMemory returns the size of the sentry's memory file: the program's memory and files,
// without gVisor's own. The caller holds x.mu.
func (x *box) sentryMemory() (bytes int64, ok bool) {
	for range 2 { // a second time if the file found has disappeared
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

// findMemory finds the memory file among the open files of processes.
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
