package process

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// openFiles is the maximum number of files that a program may open.
const openFiles = 64

// setLimits sets the resource limits of a program. It must be called before the program receives
// input. A program that exceeds a limit is killed by a signal, or its allocation or write fails.
// The limits apply to the process itself, and its children inherit them.
func setLimits(pid int, c Command) error {
	seconds := uint64(math.Ceil(c.CPU.Seconds()))
	for _, limit := range []struct {
		name    string
		kind    int
		maximum uint64
	}{
		{"CPU time", unix.RLIMIT_CPU, seconds},
		{"memory", unix.RLIMIT_DATA, uint64(c.Bytes)},
		{"size of files", unix.RLIMIT_FSIZE, uint64(c.Disk)},
		{"open files", unix.RLIMIT_NOFILE, openFiles},
		{"core dumps", unix.RLIMIT_CORE, 0},
	} {
		if err := lower(pid, limit.kind, limit.maximum); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the process has already ended
			return fmt.Errorf("%s: %w", limit.name, err)
		}
	}
	return nil
}

// lower lowers a limit of a process. It never raises a limit.
func lower(pid, kind int, maximum uint64) error {
	var is unix.Rlimit
	if err := unix.Prlimit(pid, kind, nil, &is); err != nil {
		return err
	}
	return unix.Prlimit(pid, kind, &unix.Rlimit{Cur: min(is.Cur, maximum), Max: min(is.Max, maximum)}, nil)
}
