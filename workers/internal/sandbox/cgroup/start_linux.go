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

// Start starts a command in the group: it is born there, so nothing of it can be outside, and it costs next to nothing.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g.root.version == 2 {
		return g.startV2(cmd)
	}
	return g.startV1(cmd)
}

// startV2 has the kernel put the new process there.
func (g *Group) startV2(cmd *exec.Cmd) error {
	dir, err := os.Open(g.dirs[0])
	if err != nil {
		return fmt.Errorf("opening cgroup: %w", err)
	}
	defer func() { _ = dir.Close() }() // of a folder
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}

// startV1 moves one thread of this process into the group, has it start the command, and moves it back: a new process is born where
// the thread is that makes it. A thread that moves itself waits for nobody, unlike one that is moved. It is the caller's thread, for
// children may be told to die with theirs.
func (g *Group) startV1(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if syscall.Gettid() != os.Getpid() {
		return g.startHere(cmd)
	}
	// The memory of the whole process is counted, and missed, where its first thread is: that one stays.
	return g.root.elsewhere(func() error { return g.startHere(cmd) })
}

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

// elsewhere runs f on a thread that lives until the Root is closed. The caller's goroutine has the process's first thread to itself.
func (r *Root) elsewhere(f func() error) error {
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
		if err := write(dir, "tasks", "0"); err != nil { // 0 is who writes
			return fmt.Errorf("moving a thread to a cgroup: %w", err)
		}
	}
	return nil
}

// startNothing starts a program that does not exist: all goes as ever until the new process, which is in the group by then, looks for it.
func (g *Group) startNothing() error {
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
