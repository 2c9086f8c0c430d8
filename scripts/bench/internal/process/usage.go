package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ErrNoProc is returned by Memory on a system without /proc.
var ErrNoProc = errors.New("this system has no /proc")

// tick is the unit of CPU time in /proc. Linux reports it to programs as 1/100 s on every machine.
const tick = 10 * time.Millisecond

// Indexes of fields in /proc/<pid>/stat, after the process name in parentheses. Field 0 is the
// state.
const (
	fieldParent = 1
	fieldUser   = 11
	fieldsTotal = 15 // number of fields up to the CPU times of the process (fields 11, 12) and of its ended children (fields 13, 14)
)

// stat contains the values that the bench uses from /proc/<pid>/stat.
type stat struct {
	parent   int
	own, all time.Duration // CPU time of the process, without and with its ended children
}

// CPU returns the CPU time of a process.
func CPU(pid int) (time.Duration, error) {
	s, err := readStat(strconv.Itoa(pid))
	return s.own, err
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
	root, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}

	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}

	sum := root.all
	for _, dir := range dirs {
		if child, err := readStat(filepath.Base(dir)); err == nil && child.parent == pid { // otherwise the child has just ended
			sum += child.all
		}
	}
	return sum, nil
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func readStat(pid string) (stat, error) {
	if !hasProc() {
		return stat{}, nil
	}
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("reading CPU time: %w", err)
	}
	return parseStat(raw)
}

func parseStat(raw []byte) (stat, error) {
	// The name may contain any character, so the last parenthesis is the one that closes it.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < fieldsTotal {
		return stat{}, fmt.Errorf("reading CPU time: /proc returned only %d fields", len(fields))
	}

	var numbers [fieldsTotal]int64
	for i := fieldParent; i < fieldsTotal; i++ {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("reading CPU time: %w", err)
		}
		numbers[i] = n
	}

	own := numbers[fieldUser] + numbers[fieldUser+1]
	children := numbers[fieldUser+2] + numbers[fieldUser+3]
	return stat{parent: int(numbers[fieldParent]), own: time.Duration(own) * tick, all: time.Duration(own+children) * tick}, nil
}

// anonymous is the prefix of the line in /proc/<pid>/status with the resident anonymous memory:
// heap and stacks, without the program's code.
var anonymous = []byte("RssAnon:")

// Memory returns the resident anonymous memory of a process in bytes.
func Memory(pid int) (int64, error) {
	if !hasProc() {
		return 0, ErrNoProc
	}

	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}

	for line := range bytes.Lines(raw) {
		if value, found := bytes.CutPrefix(line, anonymous); found {
			kibibytes, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading memory: %w", err)
			}
			return kibibytes << 10, nil
		}
	}
	return 0, ErrNoProc
}

// MaxFiles returns the maximum number of files and connections that this process may have open.
func MaxFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return int(min(limit.Max, 1<<30)), nil
}
