package proctree

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process contains the data that /proc shows about a process at one moment.
type process struct {
	pid, parent int
	// state is the kernel's letter for the state, such as 'T' for stopped and 'Z' for a zombie.
	state   byte
	threads int
	cpu     time.Duration // CPU time of the process and of the children that it has reaped
	start   uint64        // start time, in ticks since the machine's start
}

// tick is the kernel's unit of time in /proc, which is the same on every machine.
const tick = time.Second / 100

// gone reports whether the process has ended. Its parent may not have reaped it yet.
func (p process) gone() bool { return p.state == 'Z' || p.state == 'X' }

// readProcess reads one process.
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parse(pid, text)
}

// Indexes of the fields of /proc/<pid>/stat, counted from the first field after the name.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldUTime   = 11 // the fields stime, cutime and cstime follow
	fieldThreads = 17
	fieldStart   = 19
)

// errStat means that a file in /proc does not have the expected form.
var errStat = errors.New("unexpected line in /proc")

// parse parses the text of /proc/<pid>/stat. It returns errStat for a text with another form.
func parse(pid int, stat []byte) (process, error) {
	name := bytes.LastIndexByte(stat, ')') // the process name may itself contain spaces and parentheses
	field := strings.Fields(string(stat[name+1:]))
	if name < 0 || len(field) <= fieldStart || len(field[fieldState]) != 1 {
		return process{}, errStat
	}
	p := process{pid: pid, state: field[fieldState][0]}
	var err error
	read := func(i int) int64 {
		n, wrong := strconv.ParseInt(field[i], 10, 64)
		err = errors.Join(err, wrong)
		return n
	}
	p.parent, p.threads, p.start = int(read(fieldParent)), int(read(fieldThreads)), uint64(read(fieldStart))
	for i := range 4 {
		p.cpu += time.Duration(read(fieldUTime+i)) * tick
	}
	return p, err
}

// allProcesses reads all visible processes. It skips processes that end while it reads. The list is
// not a snapshot, because processes may start and end while it is read.
func allProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // no data can be lost

	// The entries of /proc whose names are numbers are processes. Readdirnames avoids a stat call
	// for each entry.
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}
