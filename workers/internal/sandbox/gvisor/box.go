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
	// spareMemory is what gVisor needs of its own, beside what cgroup leaves for any sandbox's isolator: its kernel, the process
	// that opens files, and page tables of all the program's processes.
	spareMemory = 64 << 20
	// hostProcesses and hostProcessesEach bound what gVisor makes of a program's processes on the host: its own threads, and some
	// for each of the program's.
	hostProcesses     = 256
	hostProcessesEach = 8

	// killTime is what the kernel has to end a namespace, before its processes are killed one by one.
	killTime = 600 * time.Millisecond
)

// box is one sandbox.
type box struct {
	backend *Backend
	name    string
	dir     string
	limits  sandbox.Limits
	command *exec.Cmd
	group   *cgroup.Group // nil without cgroups
	tree    proctree.Tree
	stdin   *os.File
	stdout  *host.Output
	said    host.Head
	first   *os.Process   // runsc, for Kill; nil when it had ended before it was found
	found   chan struct{} // closed when first is set
	done    chan struct{}

	mu     sync.Mutex // of what follows
	memory string     // where the sentry's memory is found; "" is not yet
	last   sandbox.Usage
	over   bool // last is the last
}

// start makes the sandbox's folder and starts it.
func (b *Backend) start(ctx context.Context, x *box, c sandbox.Command) error {
	if err := b.writeBundle(x.dir, c); err != nil {
		return err
	}
	if b.groups != nil {
		var err error
		if x.group, err = b.groups.New(aroundAll(c.Limits)); err != nil {
			return err
		}
	}
	p, err := newPipes()
	if err != nil {
		return err
	}
	args := b.tool.command(x.name, x.dir)
	// These three must be pipes, as exec makes one for the third: as root, runsc gives devices that it finds here, be it the host's
	// /dev/null or the worker's terminal, to the sandbox's user.
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

// launch starts the command, in its cgroup when there is one.
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
		_ = x.command.Process.Kill() // its child dies with it
		_ = x.command.Wait()
	}
	return err
}

// aroundAll are the limits of all that gVisor is on the host. The program's own are those that it is held to inside.
func aroundAll(l sandbox.Limits) sandbox.Limits {
	if l.Memory > 0 {
		l.Memory += spareMemory
	}
	if l.Processes > 0 {
		l.Processes = hostProcesses + hostProcessesEach*l.Processes
	}
	return l
}

// wait cleans up when the sandbox has ended, by itself or not.
func (x *box) wait() {
	x.first = findFirst(x.command.Process.Pid, x.tree)
	close(x.found)
	_ = x.command.Wait() // how runsc ended is nothing that the box tells
	x.settleUsage()
	_ = x.stdin.Close()
	x.stdout.Settle()
	if x.first != nil {
		_ = x.first.Release() // unshare has waited for it
	}
	x.forget()
	close(x.done)
}

// forget removes what is kept on the host of a box in which nothing runs.
func (x *box) forget() {
	if x.group != nil {
		_ = x.group.Remove() // what cannot be removed now is when the backend is closed
	}
	_ = os.RemoveAll(x.dir) // the same
	x.backend.mu.Lock()
	delete(x.backend.boxes, x)
	x.backend.mu.Unlock()
}

// Stdin is the command's standard input.
func (x *box) Stdin() io.WriteCloser { return x.stdin }

// Stdout is the command's standard output, up to its end.
func (x *box) Stdout() io.Reader { return x.stdout }

// Done is closed when nothing in the sandbox lives any more.
func (x *box) Done() <-chan struct{} { return x.done }

// Complaint is the beginning of what was written to standard error.
func (x *box) Complaint() string { return x.said.String() }

// Kill ends everything in the sandbox, and returns when nothing of it lives. Only runsc is killed: the kernel ends all of its
// namespace before runsc is gone, and unshare is there to hear of that. Killed itself, unshare would leave runsc to others to reap,
// and the sandbox would seem to have ended before it has.
func (x *box) Kill() {
	<-x.found
	if x.first != nil {
		_ = x.first.Kill() // what is gone needs none
		if x.endsWithin(killTime) {
			return
		}
	}
	_ = x.tree.Kill() // wait does the rest
	if x.group != nil {
		_ = x.group.Kill()
	}
	<-x.done
}

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
