package gvisor

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"time"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
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
	stdout  *output
	said    complaint
	first   *os.Process   // runsc, for Kill; nil when it had ended before it was found
	found   chan struct{} // closed when first is set
	done    chan struct{}

	mu     sync.Mutex
	memory string        // where the sentry's memory is found; "" is not yet
	final  sandbox.Usage // when it is done
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
	x.command = &exec.Cmd{
		Path: args[0], Args: args, Env: []string{}, Dir: "/",
		Stdin: p.in.child, Stdout: p.out.child, Stderr: p.err.child, SysProcAttr: attributes(),
	}
	if err := ctx.Err(); err != nil {
		p.close()
		return err
	}
	b.thread.do(func() { err = x.launch() })
	p.closeChild()
	if err != nil {
		p.closeOurs()
		return fmt.Errorf("starting %s: %w", args[0], err)
	}
	x.stdin, x.stdout = p.in.ours, &output{file: p.out.ours}
	go x.said.read(p.err.ours)
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
	last, _ := x.usage() // of a cgroup; without one it is what was seen last
	x.mu.Lock()
	x.final.OutOfMem = last.OutOfMem
	x.final.CPU = max(x.final.CPU, last.CPU)
	x.mu.Unlock()
	_ = x.stdin.Close()
	x.stdout.drain()
	<-x.said.done()
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
func (x *box) Complaint() string { return x.said.text() }

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

// Usage is what the sandbox uses now.
func (x *box) Usage() (sandbox.Usage, error) {
	select {
	case <-x.done:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.final, nil
	default:
	}
	u, err := x.usage()
	if err != nil {
		return u, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if bytes, ok := x.sentryMemory(); ok {
		u.Memory = bytes
	}
	x.final = u
	return u, nil
}

// usage is what the host tells. Its processes are not the sandbox's, so their number says nothing.
func (x *box) usage() (u sandbox.Usage, err error) {
	if x.group != nil {
		u, err = x.group.Usage()
	} else {
		u, err = x.tree.Usage(math.MaxInt64)
	}
	u.Processes = 0
	return u, err
}
