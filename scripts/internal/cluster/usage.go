package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is what a process holds.
type Usage struct {
	PID         int
	Memory      int64 // bytes that are resident
	Descriptors int
}

// Usage looks what the part's process holds; false while it is down.
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
