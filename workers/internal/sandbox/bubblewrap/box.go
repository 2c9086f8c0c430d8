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

// firstFile is the number that the first of exec.Cmd.ExtraFiles has in the child.
const firstFile = 3

// box is one sandbox.
type box struct {
	backend *Backend
	owner   int // user of its processes
	limits  sandbox.Limits
	cmd     *exec.Cmd
	handed  []*os.File // what is open for the child alone
	gate    *os.File   // bwrap waits for what is written there
	stdin   *os.File
	stdout  *host.Output
	stderr  host.Head
	group   *cgroup.Group // nil: there are none
	tree    proctree.Tree // for then
	done    chan struct{}

	mu       sync.Mutex // of what follows
	folders  []*os.File // of the sandbox, once they are there
	last     sandbox.Usage
	over     bool // last is the last
	givesWay bool // once it has used sandbox.GiveWayAfter
}

// prepare makes all that a sandbox is started with.
func (x *box) prepare(c sandbox.Command) error {
	x.cmd = &exec.Cmd{Path: x.backend.bwrap[0], Env: []string{}, Dir: "/", Stderr: &x.stderr}
	if err := x.pipes(); err != nil {
		return err
	}
	filter, err := x.hand("filter", x.backend.filter)
	if err != nil {
		return err
	}
	var files []int
	for _, data := range slices.Concat(c.Data, host.MadeUp) {
		number, err := x.hand("data", data.Content)
		if err != nil {
			return err
		}
		files = append(files, number)
	}
	waits, err := x.makeGate()
	if err != nil {
		return err
	}
	number, err := x.hand("arguments", []byte(listed(arguments(c, filter, files))))
	if err != nil {
		return err
	}
	given := []string{"--args", strconv.Itoa(waits), "--args", strconv.Itoa(number), "--"}
	x.cmd.Args = slices.Concat(x.backend.bwrap, given, c.Args)
	x.cmd.SysProcAttr = isolation(x.owner)
	if x.backend.groups != nil {
		x.group, err = x.backend.groups.New(c.Limits)
	}
	return err
}

func (x *box) pipes() error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	x.handed, x.stdin, x.cmd.Stdin = append(x.handed, stdin), in, stdin
	out, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	x.handed, x.stdout, x.cmd.Stdout = append(x.handed, stdout), host.NewOutput(out), stdout
	return nil
}

// makeGate makes a list of arguments that bwrap waits for: those without which there is no program in the sandbox. So nothing
// runs when this process dies before it has written them, which may be before the kernel knows that bwrap is to die as well.
func (x *box) makeGate() (int, error) {
	waits, gate, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	x.gate = gate
	return x.handFile(waits), nil
}

// hand gives content to the child as a file, and returns its number there.
func (x *box) hand(name string, content []byte) (int, error) {
	f, err := memoryFile(name, content)
	if err != nil {
		return 0, err
	}
	return x.handFile(f), nil
}

func (x *box) handFile(f *os.File) int {
	x.handed = append(x.handed, f)
	x.cmd.ExtraFiles = append(x.cmd.ExtraFiles, f)
	return firstFile + len(x.cmd.ExtraFiles) - 1
}

// launch runs on the backend's thread.
func (x *box) launch() error {
	if err := host.SealDescriptors(); err != nil {
		return err
	}
	defer x.closeHanded()
	if x.group != nil {
		if err := x.group.Start(x.cmd); err != nil {
			return err
		}
	} else if err := x.cmd.Start(); err != nil {
		return err
	}
	err := settle(x.cmd.Process.Pid)
	if err == nil && x.group == nil {
		x.tree, err = proctree.Of(x.cmd.Process.Pid)
	}
	if err == nil {
		_, err = x.gate.WriteString(listed(x.backend.view))
	}
	if err != nil {
		err = errors.Join(err, x.cmd.Process.Kill())
		_ = x.cmd.Wait() // it was killed
	}
	return err
}

// listed is how bwrap reads arguments from a file.
func listed(args []string) string { return strings.Join(args, "\x00") + "\x00" }

// closeHanded closes what is the child's, and the gate.
func (x *box) closeHanded() {
	for _, f := range x.handed {
		_ = f.Close() // of pipes and memory
	}
	x.handed = nil
	if x.gate != nil {
		_ = x.gate.Close() // of a pipe
	}
}

// abandon gives back what a box has that was never started.
func (x *box) abandon() {
	x.closeHanded()
	if x.stdin != nil {
		_ = x.stdin.Close() // of a pipe
	}
	if x.stdout != nil {
		x.stdout.Settle()
	}
	x.release()
	close(x.done)
}

// wait returns when nothing in the sandbox lives: the kernel ends a process namespace before its first process counts as ended.
func (x *box) wait() {
	_ = x.cmd.Wait()    // how bwrap ended says nothing more than what it wrote
	_ = x.stdin.Close() // of a pipe
	x.stdout.Settle()   // all writers are gone
	x.settleUsage()
	x.release()
	x.backend.forget(x)
	close(x.done)
}

// release gives back what outlives processes.
func (x *box) release() {
	if x.group != nil {
		_ = x.group.Remove() // what is left is removed with the backend, or when another opens
	}
	x.backend.owners.giveBack(x.owner)
}

// Stdin is the command's standard input.
func (x *box) Stdin() io.WriteCloser { return x.stdin }

// Stdout is the command's standard output.
func (x *box) Stdout() io.Reader { return x.stdout }

// Done is closed when nothing in the sandbox lives any more.
func (x *box) Done() <-chan struct{} { return x.done }

// Complaint is the beginning of standard error.
func (x *box) Complaint() string { return x.stderr.String() }

// Kill ends everything in the sandbox. Its first process is enough: the kernel ends the others of its namespace.
func (x *box) Kill() {
	_ = x.cmd.Process.Kill() // it may have ended already
	<-x.done
}
