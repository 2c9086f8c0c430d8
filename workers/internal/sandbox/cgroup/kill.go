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
	killTime  = 5 * time.Second // a thousand times what it takes, for machines that are busy
	firstLook = time.Millisecond
	lastLook  = 16 * time.Millisecond
)

// errAlive is that something in a cgroup lives on.
var errAlive = errors.New("a process is still running")

// again calls f, ever more rarely, until it succeeds or fails for another reason than that something lives.
func again(f func() error) error {
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

// end ends every process in a cgroup and below it, and returns when none lives.
func end(dir string) error {
	// From here on nothing in it can fork, so what is killed is not outrun. Where there is no such file, cgroup.kill does it.
	_ = write(dir, "pids.max", "0")
	return again(func() error {
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

// killAll sends SIGKILL to those of pids that are in the cgroup still, once there is a hold on each: a number that was
// given to another process in between names that process no longer.
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
			_ = p.Signal(syscall.SIGKILL) // one that is gone needs none
		}
		_ = p.Release() // there is nothing to wait for
	}
}
