package gvisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/host"
	"parley/workers/internal/sandbox/proctree"
)

const (
	// spareMemory is the memory that gVisor itself needs: for its kernel, for the process that
	// opens files, and for the page tables of the program's processes. spareMemory is added to the
	// reserve of package cgroup.
	spareMemory = 64 << 20
	// hostProcesses and hostProcessesEach limit the number of gVisor's processes and threads on the
	// host. hostProcesses is the number for gVisor itself. hostProcessesEach is the number for each
	// process of the program.
	hostProcesses     = 256
	hostProcessesEach = 8

	// killTime is the time in which the kernel should end the namespace. If processes are still
	// alive afterwards, they are killed individually.
	killTime = 600 * time.Millisecond
)

// box is one sandbox. It implements sandbox.Box. The method start sets its fields. When the sandbox
// has ended, the method wait, which has its own goroutine, removes everything that belongs to the
// box.
type box struct {
	backend *Backend
	// name is the sandbox's name for runsc. dir is the folder with the sandbox's files on the host.
	name   string
	dir    string
	limits sandbox.Limits
	// command is unshare, the first process in the diagram of the package comment.
	command *exec.Cmd
	group   *cgroup.Group // nil without cgroups
	// tree contains unshare and all processes that it has started.
	tree   proctree.Tree
	stdin  *os.File
	stdout *host.Output
	said   host.Head
	first  *os.Process   // the runsc process, for Kill; nil if it ended before it was found
	found  chan struct{} // closed when first is set
	done   chan struct{}

	mu     sync.Mutex // guards the fields below
	memory string     // path of the sentry's memory file; "" until it is found
	last   sandbox.Usage
	final  bool // true if x.last is the final usage
}

// start creates the sandbox's folder and starts the sandbox. If it fails, the caller must call
// forget, which also removes the group and the folder. ctx applies only to the start.
func (b *Backend) start(ctx context.Context, x *box, c sandbox.Command) error {
	if err := b.writeBundle(x.dir, c); err != nil {
		return err
	}

	if b.groups != nil {
		var err error
		if x.group, err = b.groups.New(hostLimits(c.Limits)); err != nil {
			return err
		}
	}

	p, err := newPipes()
	if err != nil {
		return err
	}
	args := b.tool.command(x.name, x.dir)
	// All three standard streams must be pipes; exec creates the third. If runsc runs as root and a
	// stream is a device, runsc makes the sandbox's user the owner of that device. The device could
	// be the host's /dev/null or the worker's terminal.
	x.command = &exec.Cmd{
		Path: args[0], Args: args, Env: []string{}, Dir: "/",
		Stdin: p.in.child, Stdout: p.out.child, Stderr: &x.said, SysProcAttr: attributes(),
	}

	err = b.thread.Do(ctx, x.launch)
	p.closeChild()
	if err != nil {
		p.closeOurs()
		return fmt.Errorf("starting %s: %w", args[0], err)
	}

	x.stdin, x.stdout = p.in.ours, host.NewOutput(p.out.ours)
	go x.wait()
	return nil
}

// launch starts the command, within its cgroup if there is one. It runs on the backend's thread,
// because sandboxes die with the thread that started them.
func (x *box) launch() (err error) {
	if x.group != nil {
		err = x.group.Start(x.command)
	} else {
		err = x.command.Start()
	}
	if err != nil {
		return err
	}
	if x.tree, err = proctree.Of(x.command.Process.Pid); err != nil {
		_ = x.command.Process.Kill() // unshare's child dies with it
		_ = x.command.Wait()
	}
	return err
}

// hostLimits returns the limits that the host sets for gVisor's own processes. The memory of these
// processes includes the program's memory. gVisor enforces the program's limits inside the sandbox.
func hostLimits(l sandbox.Limits) sandbox.Limits {
	if l.Memory > 0 {
		l.Memory += spareMemory
	}
	if l.Processes > 0 {
		l.Processes = hostProcesses + hostProcessesEach*l.Processes
	}
	return l
}

// wait waits until the sandbox has ended, and then removes its files and its group. It runs in a
// goroutine of its own and closes done at the end.
func (x *box) wait() {
	// Find the handle of runsc before unshare is reaped. Kill waits until x.found is closed.
	x.first = findRunsc(x.command.Process.Pid, x.tree)
	close(x.found)
	_ = x.command.Wait() // the error is ignored, because the interface of a box does not report runsc's exit status
	x.finalizeUsage()
	_ = x.stdin.Close()
	// The pipe's data is read before done is closed, so that output can be read after the end.
	x.stdout.Drain()
	if x.first != nil {
		_ = x.first.Release() // unshare has already reaped runsc
	}
	x.forget()
	close(x.done)
}

// forget removes the cgroup and the files of a box that has ended, and removes the box from the
// backend's list.
func (x *box) forget() {
	if x.group != nil {
		_ = x.group.Remove() // a group that cannot be removed now is removed when the backend is closed
	}
	_ = os.RemoveAll(x.dir) // files that cannot be removed now are removed when the backend is closed
	x.backend.mu.Lock()
	delete(x.backend.boxes, x)
	x.backend.mu.Unlock()
}

// Stdin returns the command's standard input.
func (x *box) Stdin() io.WriteCloser { return x.stdin }

// Stdout returns the command's standard output, up to its end.
func (x *box) Stdout() io.Reader { return x.stdout }

// Done returns a channel that is closed when no process is left in the sandbox.
func (x *box) Done() <-chan struct{} { return x.done }

// Stderr returns the first 16 KiB of standard error.
func (x *box) Stderr() string { return x.said.String() }

// Kill kills all processes in the sandbox and waits until they are gone. Kill signals only runsc.
// The kernel ends the other processes of runsc's namespace before runsc itself, and unshare waits
// for runsc. If Kill signaled unshare, another process would have to reap runsc, and the sandbox
// would seem to end too early.
func (x *box) Kill() {
	<-x.found
	if x.first != nil {
		_ = x.first.Kill() // a process that has ended needs no signal
		if x.endsWithin(killTime) {
			return
		}
	}
	_ = x.tree.Kill() // wait does the remaining work
	if x.group != nil {
		_ = x.group.Kill()
	}
	<-x.done
}

// endsWithin reports whether the box ends within the duration d.
func (x *box) endsWithin(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-x.done:
		return true
	case <-limit.C:
		return false
	}
}
