package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit of CPU time in /proc, which Linux has fixed at 1/100 s for programs.
const tick = 10 * time.Millisecond

// ErrNoProc says that this system does not tell the CPU time of other processes.
var ErrNoProc = errors.New("no /proc here")

// Fields of /proc/<pid>/stat, counted from the state, which follows the name in parentheses.
const (
	fieldParent = 1
	fieldUser   = 11
	fieldSystem = 12
	fieldsReap  = 13 // user and system time of children that have ended
)

type stat struct {
	parent   int
	own, all time.Duration // all: with children that have ended
}

// CPU is the CPU time that the process has taken, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	s, err := read(strconv.Itoa(pid))
	return s.own, err
}

// TreeCPU is the CPU time of a process and its children, those that have ended too: PostgreSQL's.
func TreeCPU(pid int) (time.Duration, error) {
	root, err := read(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	sum := root.all
	for _, dir := range dirs {
		if child, err := read(filepath.Base(dir)); err == nil && child.parent == pid { // else it has just ended
			sum += child.all
		}
	}
	return sum, nil
}

// Busy is the CPU time that all processes of the machine have taken, the kernel and (on a virtual machine) the host's
// other guests too.
func Busy() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrNoProc
	}
	if err != nil {
		return 0, fmt.Errorf("reading CPU time: %w", err)
	}
	return parseBusy(raw)
}

// idleFields of the line "cpu" are no work: idle and iowait; guest time is counted under user already.
const idleFields, guestFields = 3, 8

func parseBusy(raw []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < guestFields+1 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("reading CPU time: %q", line)
	}
	var sum time.Duration
	for i, field := range fields[1 : guestFields+1] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading CPU time: %w", err)
		}
		if i != idleFields && i != idleFields+1 {
			sum += time.Duration(ticks) * tick
		}
	}
	return sum, nil
}

func read(pid string) (stat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self/stat"); err != nil {
			return stat{}, ErrNoProc
		}
	}
	if err != nil {
		return stat{}, fmt.Errorf("reading CPU time: %w", err)
	}
	return parse(raw)
}

func parse(raw []byte) (stat, error) {
	// The name may hold anything, parentheses too; the last one closes it.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= fieldsReap+1 {
		return stat{}, fmt.Errorf("reading CPU time: %d fields", len(fields))
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	own := time.Duration(number(fieldUser)+number(fieldSystem)) * tick
	return stat{
		parent: int(number(fieldParent)), own: own,
		all: own + time.Duration(number(fieldsReap)+number(fieldsReap+1))*tick,
	}, nil
}
