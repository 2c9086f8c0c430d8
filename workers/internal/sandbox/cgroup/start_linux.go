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

// Start starts a command as a member of the group, so none of its processes can be outside. It is
// cheap.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g.root.version == 2 {
		return g.startV2(cmd)
	}
	return g.startV1(cmd)
}

// startV2 lets the kernel create the process in the group.
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

// startV1 moves one thread of this process into the group, starts the command from it and moves it
// back: a new process joins the cgroup of the thread that creates it. A thread that moves itself
// does not wait for other processes. The thread is the caller's, because children may be set to die
// with it.
func (g *Group) startV1(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.Gettid() != os.Getpid() {
		return g.startHere(cmd)
	}
	// The kernel charges the process's memory to the cgroup of its first thread, so that thread
	// must not move.
	return g.root.onThread(func() error { return g.startHere(cmd) })
}

// startHere starts the command from the calling thread, and kills it if the thread cannot move back.
func (g *Group) startHere(cmd *exec.Cmd) error {
	err := moveThread(g.dirs)
	if err == nil {
		err = cmd.Start()
	}

	homes := make([]string, len(g.dirs))
	for i := range homes {
		homes[i] = g.root.parts[i].home
	}
	if back := moveThread(homes); back != nil {
		if err == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
		return errors.Join(err, back)
	}
	return err
}

// onThread runs f on a thread that lives until the Root is closed. It is used if the caller runs
// on the process's first thread.
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

// moveThread moves the calling thread into these cgroups.
func moveThread(dirs []string) error {
	for _, dir := range dirs {
		if err := write(dir, "tasks", "0"); err != nil { // 0 is the calling thread
			return fmt.Errorf("moving a thread to a cgroup: %w", err)
		}
	}
	return nil
}

// trialStart starts a program that does not exist. Everything works as for a sandbox until the
// new process, which is in the group by then, looks for its program.
func (g *Group) trialStart() error {
	cmd := &exec.Cmd{Path: "/nonexistent/parley", Args: []string{"parley"}}
	err := g.Start(cmd)
	if started, is := errors.AsType[*fs.PathError](err); is && started.Op == "fork/exec" && errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err == nil {
		return errors.Join(errors.New("a nonexistent program was started"), cmd.Process.Kill(), cmd.Wait())
	}
	return fmt.Errorf("cannot start a process in a cgroup: %w", err)
}
