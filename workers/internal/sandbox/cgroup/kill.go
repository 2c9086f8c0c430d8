package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// killTime limits the wait for the end of processes. firstLook is the first interval between two
// checks, and lastLook is the longest.
const (
	killTime  = 5 * time.Second // a thousand times the usual duration, because the machine may be busy
	firstLook = time.Millisecond
	lastLook  = 16 * time.Millisecond
)

// errAlive means that a process in a cgroup is still alive.
var errAlive = errors.New("a process is still running")

// retry calls f with increasing delays. It stops after killTime, or when f returns nil or any error
// except errAlive and EBUSY. It returns the last error of f.
func retry(f func() error) error {
	deadline := time.Now().Add(killTime)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		<-pause.C
		err := f()
		alive := errors.Is(err, errAlive) || errors.Is(err, syscall.EBUSY)
		if !alive {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %w", killTime, err)
		}
		pause.Reset(wait)
	}
}

// end kills all processes in a cgroup and the cgroups below it, and waits until they are gone. It
// does not kill this process, even if a thread of this process is in the cgroup. A cgroup that does
// not exist is not an error. Afterwards no process can fork in the cgroup.
func end(dir string) error {
	// With a limit of 0, no process in the cgroup can fork, so no child escapes. Kernels without
	// pids.max have cgroup.kill, which has the same effect.
	_ = write(dir, "pids.max", "0")
	return retry(func() error {
		// The list is read again after each kill, until it is empty.
		pids, err := pidsIn(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing processes of a cgroup: %w", err)
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() }) // see Group.Start
		if len(pids) == 0 {
			return nil
		}
		if write(dir, "cgroup.kill", "1") != nil {
			killAll(dir, pids)
		}
		return fmt.Errorf("processes %v in %s: %w", pids, dir, errAlive)
	})
}

// killAll kills those of the given processes that are still in the cgroup. It first opens a handle
// for each process, and then lists the cgroup again, so that it never kills an unrelated process
// that has reused a pid.
func killAll(dir string, pids []int) {
	held := make(map[int]*os.Process, len(pids))
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && pid > 0 {
			held[pid] = p
		}
	}

	// A process with an open handle keeps its pid. So a pid that is still listed belongs to the
	// process for which the handle was opened.
	still, err := pidsIn(dir)
	for pid, p := range held {
		if err == nil && slices.Contains(still, pid) {
			_ = p.Signal(syscall.SIGKILL) // a process that has ended needs no signal
		}
		_ = p.Release() // the process's parent reaps it
	}
}
