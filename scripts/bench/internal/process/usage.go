package process

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// ErrNoProc is returned by Memory on a system without /proc.
var ErrNoProc = errors.New("this system has no /proc")

// proc is the file system /proc, if there is one.
var proc, errProc = procfs.NewDefaultFS()

var hasProc = errProc == nil

// tick is the unit of CPU time in /proc. Linux reports it to programs as 1/100 s on every machine.
const tick = 10 * time.Millisecond

// CPU returns the CPU time of a process.
func CPU(pid int) (time.Duration, error) {
	s, err := readStat(pid)
	return time.Duration(s.UTime+s.STime) * tick, err
}

// OwnCPU returns the CPU time of the process that calls it.
func OwnCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// TreeCPU returns the CPU time of a process and its children, including children that have ended.
func TreeCPU(pid int) (time.Duration, error) {
	root, err := readStat(pid)
	if err != nil || !hasProc {
		return 0, err
	}
	processes, err := proc.AllProcs()
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}

	sum := withEnded(root)
	for _, p := range processes {
		if child, err := p.Stat(); err == nil && child.PPID == pid { // otherwise the child has just ended
			sum += withEnded(child)
		}
	}
	return sum, nil
}

// withEnded returns the CPU time of a process and of its children that have ended.
func withEnded(s procfs.ProcStat) time.Duration {
	return (time.Duration(s.UTime+s.STime) + time.Duration(s.CUTime+s.CSTime)) * tick
}

// readStat reads the state of a process. Without /proc, the result is zero.
func readStat(pid int) (s procfs.ProcStat, err error) {
	if !hasProc {
		return s, nil
	}
	p, err := proc.Proc(pid)
	if err == nil {
		s, err = p.Stat()
	}
	if err != nil {
		return s, fmt.Errorf("reading CPU time: %w", err)
	}
	return s, nil
}

// Memory returns the resident anonymous memory of a process in bytes: heap and stacks, without the
// program's code.
func Memory(pid int) (int64, error) {
	if !hasProc {
		return 0, ErrNoProc
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	return int64(status.RssAnon), nil
}

// MaxFiles returns the maximum number of files and connections that this process may have open.
func MaxFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return int(min(limit.Max, 1<<30)), nil
}
