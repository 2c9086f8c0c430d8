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
	killTime = time.Second
	killPoll = time.Millisecond
)

// end ends every process in a cgroup and below it, and returns when none lives.
func end(dir string) error {
	// From here on nothing in it can fork, so what is killed is not outrun. Where there is no such file, cgroup.kill does it.
	_ = write(dir, "pids.max", "0")
	tick := time.NewTicker(killPoll)
	defer tick.Stop()
	for deadline := time.Now().Add(killTime); ; <-tick.C {
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
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of a cgroup live on after %s", len(pids), killTime)
		}
		if write(dir, "cgroup.kill", "1") != nil {
			killAll(dir, pids)
		}
	}
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
