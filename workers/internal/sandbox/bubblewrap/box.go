package bubblewrap

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/host"
	"parley/workers/internal/sandbox/proctree"
)

// firstFile is the descriptor number that the child sees for the first file in exec.Cmd.ExtraFiles.
const firstFile = 3

// box is one sandbox.
type box struct {
	backend    *Backend
	owner      int // id of the user that owns the processes in the sandbox
	limits     sandbox.Limits
	cmd        *exec.Cmd
	childFiles []*os.File // files passed to the child; this process does not use them
	gate       *os.File   // write end of the pipe from which bwrap reads the arguments of viewFor
	stdin      *os.File
	stdout     *host.Output
	stderr     host.Head
	group      *cgroup.Group // nil without cgroups
	tree       proctree.Tree // used only without cgroups
	done       chan struct{}

	mu       sync.Mutex // guards the fields below
	folders  []*os.File // the sandbox's folders, once they exist
	last     sandbox.Usage
	final    bool // true if x.last is the final usage
	givesWay bool // lower the priority after the processor time sandbox.GiveWayAfter
}

// prepare creates the pipes, files and arguments that a sandbox needs before it can start.
func (x *box) prepare(c sandbox.Command) error {
	x.cmd = &exec.Cmd{Path: x.backend.bwrap[0], Env: []string{}, Dir: "/", Stderr: &x.stderr}
	if err := x.pipes(); err != nil {
		return err
	}

	// bwrap reads the filter, the files and the arguments from inherited descriptors, so nothing is
	// written to the host's disk.
	filter, err := x.passContent("filter", x.backend.filter)
	if err != nil {
		return err
	}

	var files []int
	for _, data := range slices.Concat(c.Data, host.GeneratedFiles) {
		number, err := x.passContent("data", data.Content)
		if err != nil {
			return err
		}
		files = append(files, number)
	}

	waits, err := x.openGate()
	if err != nil {
		return err
	}

	number, err := x.passContent("arguments", []byte(listed(arguments(c, filter, files))))
	if err != nil {
		return err
	}

	// The command line contains only descriptor numbers, so the host's list of processes does not
	// show the arguments.
	given := []string{"--args", strconv.Itoa(waits), "--args", strconv.Itoa(number), "--"}
	x.cmd.Args = slices.Concat(x.backend.bwrap, given, c.Args)
	x.cmd.SysProcAttr = isolation(x.owner)
	if x.backend.groups != nil {
		x.group, err = x.backend.groups.New(c.Limits)
	}
	return err
}

// pipes creates the pipes for the command's standard input and output.
func (x *box) pipes() error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	x.childFiles, x.stdin, x.cmd.Stdin = append(x.childFiles, stdin), in, stdin
	out, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	x.childFiles, x.stdout, x.cmd.Stdout = append(x.childFiles, stdout), host.NewOutput(out), stdout
	return nil
}

// openGate creates a pipe, the gate, from which bwrap reads the arguments for the host's files (see
// viewFor). If the worker dies before it writes the arguments, the sandbox contains no program to
// run. Without the gate, bwrap could outlive the worker, because the kernel learns only some time
// after the start that bwrap must die with the worker.
func (x *box) openGate() (int, error) {
	waits, gate, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	x.gate = gate
	return x.passFile(waits), nil
}

// passContent passes content to the child as a file, and returns the file's descriptor in the
// child.
func (x *box) passContent(name string, content []byte) (int, error) {
	f, err := memoryFile(name, content)
	if err != nil {
		return 0, err
	}
	return x.passFile(f), nil
}

// passFile passes a file to the child and returns its descriptor there. exec.Cmd numbers the extra
// files from firstFile on.
func (x *box) passFile(f *os.File) int {
	x.childFiles = append(x.childFiles, f)
	x.cmd.ExtraFiles = append(x.cmd.ExtraFiles, f)
	return firstFile + len(x.cmd.ExtraFiles) - 1
}

// launch starts bwrap. It runs on the backend's thread.
func (x *box) launch() error {
	// Libraries may have opened files since the previous sandbox was started, so descriptors are
	// sealed before each start.
	if err := host.SealDescriptors(); err != nil {
		return err
	}

	defer x.closeChildFiles()
	if x.group != nil {
		if err := x.group.Start(x.cmd); err != nil {
			return err
		}
	} else if err := x.cmd.Start(); err != nil {
		return err
	}

	// bwrap waits at the gate until its process attributes are set and its process tree is
	// recorded.
	err := setAttributes(x.cmd.Process.Pid)
	if err == nil && x.group == nil {
		x.tree, err = proctree.Of(x.cmd.Process.Pid)
	}
	if err == nil {
		_, err = x.gate.WriteString(listed(x.backend.view))
	}
	if err != nil {
		err = errors.Join(err, x.cmd.Process.Kill())
		_ = x.cmd.Wait() // reap the process, which was killed
	}
	return err
}

// listed encodes arguments in the form that bwrap reads from a file.
func listed(args []string) string { return strings.Join(args, "\x00") + "\x00" }

// closeChildFiles closes the child's files and the gate.
func (x *box) closeChildFiles() {
	for _, f := range x.childFiles {
		_ = f.Close() // no data can be lost: the file was only read or passed on
	}
	x.childFiles = nil
	if x.gate != nil {
		_ = x.gate.Close() // no data can be lost
	}
}

// abandon releases the resources of a box that was not started.
func (x *box) abandon() {
	x.closeChildFiles()
	if x.stdin != nil {
		_ = x.stdin.Close() // no data can be lost
	}
	if x.stdout != nil {
		x.stdout.Drain()
	}
	x.release()
	close(x.done)
}

// wait waits until no process is left in the sandbox, and then releases its resources. When the
// first process of a PID namespace ends, the kernel kills all other processes in the namespace. So
// waiting for bwrap is enough.
func (x *box) wait() {
	_ = x.cmd.Wait()    // the error is ignored, because bwrap writes the reason of a failure to standard error
	_ = x.stdin.Close() // no data can be lost
	x.stdout.Drain()    // all writers have ended
	x.finalizeUsage()
	x.release()
	x.backend.forget(x)
	close(x.done)
}

// release removes the sandbox's cgroup and frees the sandbox's user for other sandboxes. It must be
// called after all processes have ended.
func (x *box) release() {
	if x.group != nil {
		_ = x.group.Remove() // a group that cannot be removed now is removed when a backend is closed or opened
	}
	x.backend.owners.giveBack(x.owner)
}

// Stdin returns the command's standard input.
func (x *box) Stdin() io.WriteCloser { return x.stdin }

// Stdout returns the command's standard output.
func (x *box) Stdout() io.Reader { return x.stdout }

// Done returns a channel that is closed when no process is left in the sandbox.
func (x *box) Done() <-chan struct{} { return x.done }

// Stderr returns the first 16 KiB of standard error, from bwrap and the command.
func (x *box) Stderr() string { return x.stderr.String() }

// Kill kills all processes in the sandbox and waits until they are gone. It signals only the first
// process of the namespace; when that process dies, the kernel kills the others.
func (x *box) Kill() {
	_ = x.cmd.Process.Kill() // the process may have exited already
	<-x.done
}
