package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command as a member of the group, so none of its processes is ever outside the
// group. Unlike Add, it does not wait for the kernel. The caller must call cmd.Wait. If Start
// fails, no process is left.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g.root.version == 2 {
		return g.startV2(cmd)
	}
	return g.startV1(cmd)
}

// startV2 lets the kernel create the process in the group. It changes cmd.SysProcAttr.
func (g *Group) startV2(cmd *exec.Cmd) error {
	dir, err := os.Open(g.dirs[0])
	if err != nil {
		return fmt.Errorf("opening cgroup: %w", err)
	}
	defer func() { _ = dir.Close() }() // no data can be lost
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// startV1 starts a command in the group. A new process joins the cgroup of the thread that creates
// it. So startV1 moves the calling thread into the group, starts the command, and moves the thread
// back. A thread can move itself without waiting for other processes. The thread that moves must be
// the calling thread, because the command may be set to die with that thread.
func (g *Group) startV1(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.Gettid() != os.Getpid() {
		return g.startHere(cmd)
	}
	// If the caller runs on the process's first thread, another thread must start the command. The
	// kernel charges the memory of a process to the cgroup of its first thread, so the first thread
	// must not move.
	return g.root.onThread(func() error { return g.startHere(cmd) })
}

// startHere starts the command from the calling thread. If the thread cannot move back, startHere
// kills the command.
func (g *Group) startHere(cmd *exec.Cmd) error {
	err := moveThread(g.dirs)
	if err == nil {
		err = cmd.Start()
	}

	// The thread must leave the group in any case. Otherwise its later work would count as usage of
	// the sandbox.
	homes := make([]string, len(g.dirs))
	for i := range homes {
		homes[i] = g.root.parts[i].home
	}
	if back := moveThread(homes); back != nil {
		if err == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // reap the command, which was killed
		}
		return errors.Join(err, back)
	}
	return err
}

// onThread runs f on a thread that lives until the Root is closed, and returns f's error. onThread
// is needed if the caller runs on the process's first thread.
func (r *Root) onThread(f func() error) error {
	r.begin.Do(func() {
		r.thread = make(chan func())
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with this function
			for f := range r.thread {
				f()
			}
		}()
	})
	result := make(chan error, 1)
	r.thread <- func() { result <- f() }
	return <-result
}

// moveThread moves the calling thread into the given cgroups.
func moveThread(dirs []string) error {
	for _, dir := range dirs {
		if err := write(dir, "tasks", "0"); err != nil { // 0 means the calling thread
			return fmt.Errorf("moving a thread to a cgroup: %w", err)
		}
	}
	return nil
}

// trialStart starts a program that does not exist. It performs all steps of a real start until the
// new process, which is already in the group, fails to find its program.
func (g *Group) trialStart() error {
	cmd := &exec.Cmd{Path: "/nonexistent/parley", Args: []string{"parley"}}
	err := g.Start(cmd)
	if started, is := errors.AsType[*fs.PathError](err); is && started.Op == "fork/exec" && errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err == nil {
		return errors.Join(errors.New("starting a nonexistent program succeeded"), cmd.Process.Kill(), cmd.Wait())
	}
	return fmt.Errorf("cannot start a process in a cgroup: %w", err)
}
