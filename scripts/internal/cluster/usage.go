package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is the resource usage of a process.
type Usage struct {
	PID         int
	Memory      int64 // resident memory in bytes
	Descriptors int
}

// Usage returns the resource usage of the part's process. It returns false while the part is down.
func (p *Part) Usage() (Usage, bool) {
	pid := p.PID()
	if pid == 0 {
		return Usage{}, false
	}

	dir := filepath.Join("/proc", strconv.Itoa(pid))
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return Usage{}, false
	}

	content, err := os.ReadFile(filepath.Join(dir, "statm"))
	fields := strings.Fields(string(content))
	if err != nil || len(fields) < 2 {
		return Usage{}, false
	}

	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return Usage{PID: pid, Memory: pages * int64(os.Getpagesize()), Descriptors: len(open)}, err == nil
}
