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

// process is one line of /proc.
type process struct {
	pid, parent int
	state       byte
	threads     int
	cpu         time.Duration // its own, and that of the children it has waited for
	start       uint64        // in ticks since the machine started
}

// tick is the kernel's unit of time in /proc, the same on every machine.
const tick = time.Second / 100

// gone reports a process that has ended, whether or not its parent has looked.
func (p process) gone() bool { return p.state == 'Z' || p.state == 'X' }

// look reads one process.
func look(pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parse(pid, text)
}

// The fields of /proc/<pid>/stat, counted from the one behind the name.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldUTime   = 11 // and stime, cutime, cstime
	fieldThreads = 17
	fieldStart   = 19
)

var errStat = errors.New("unexpected line in /proc")

func parse(pid int, stat []byte) (process, error) {
	name := bytes.LastIndexByte(stat, ')') // a name may hold spaces and parentheses
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

// all reads every process that can be seen; those that end meanwhile are left out.
func all() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // of a folder
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
		if p, err := look(pid); err == nil {
			list = append(list, p)
		}
	}
	return list, nil
}
