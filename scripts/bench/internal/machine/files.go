package machine

import (
	"fmt"
	"math"
	"syscall"
)

// AllowFiles lets this process have so many files and connections open. Programs in Go raise their own limit to what
// they may have when they start; an error says that this is too little.
func AllowFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	need := uint64(n)
	if limit.Cur >= need {
		return nil
	}
	if limit.Max < need {
		return fmt.Errorf("%d open files and connections are needed, and %d are allowed: see ulimit -Hn", n, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}

// FilesAllowed is how many files and connections a process may have open at most.
func FilesAllowed() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return int(min(limit.Max, math.MaxInt32)), nil
}
