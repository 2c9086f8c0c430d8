package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ErrNoMemory says that this system does not tell the memory of other processes apart.
var ErrNoMemory = errors.New("no memory of processes in /proc here")

// anonymous is the line of /proc/<pid>/status with the memory that a process has written and that is in RAM: heap,
// stacks and whatever its runtime keeps, but no program text, which does not grow with what the process does.
var anonymous = []byte("RssAnon:")

// Memory is how many bytes of RAM the process has filled by itself.
func Memory(pid int) (int64, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self/status"); err != nil {
			return 0, ErrNoMemory
		}
	}
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	return parseMemory(raw)
}

func parseMemory(raw []byte) (int64, error) {
	for line := range bytes.Lines(raw) {
		value, found := bytes.CutPrefix(line, anonymous)
		if !found {
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0, fmt.Errorf("reading memory: %q", line)
		}
		kibibytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading memory: %q", line)
		}
		return kibibytes << 10, nil
	}
	return 0, ErrNoMemory
}
