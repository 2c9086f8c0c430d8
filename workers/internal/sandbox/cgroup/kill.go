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

const (
	killTime  = 5 * time.Second // a thousand times the usual time, for busy machines
	firstLook = time.Millisecond
	lastLook  = 16 * time.Millisecond
)

// errAlive means that a process in a cgroup is still alive.
var errAlive = errors.New("a process is still running")

// retry retries f with increasing delay until it succeeds, fails for another reason than a live
// process, or killTime has passed.
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

// end kills every process in a cgroup and below it, and returns when none is alive.
func end(dir string) error {
	// From here on nothing in it can fork, so the kills cannot be outrun. Without this file,
	// cgroup.kill does the same.
	_ = write(dir, "pids.max", "0")
	return retry(func() error {
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

// killAll kills those of pids that are still in the cgroup. It first takes a handle on each process
// and then lists the cgroup again, so that a reused pid is not killed.
func killAll(dir string, pids []int) {
	held := make(map[int]*os.Process, len(pids))
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && pid > 0 {
			held[pid] = p
		}
	}

	still, err := pidsIn(dir)
	for pid, p := range held {
		if err == nil && slices.Contains(still, pid) {
			_ = p.Signal(syscall.SIGKILL) // a process that has ended needs no signal
		}
		_ = p.Release() // its parent waits for it
	}
}
