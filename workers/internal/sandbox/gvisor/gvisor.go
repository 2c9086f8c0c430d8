package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/host"
)

// Config configures a Backend. Empty fields have defaults.
type Config struct {
	Python string // the interpreter in sandboxes; default /usr/bin/python3
	Runsc  string // path of runsc; default: $RUNSC, or runsc in PATH
	Folder string // parent folder for files on the host; default: the system's temporary folder
}

// trialTime is the time limit of the first sandbox. It is long because a machine may be slow just
// after its start.
const trialTime = 30 * time.Second

// Backend creates sandboxes with runsc. It implements sandbox.Backend and is safe for concurrent
// use. A worker has at most one Backend.
type Backend struct {
	tool tool
	// python is the interpreter whose libraries sandboxes contain.
	python string
	// kept is the folder with the files of all sandboxes.
	kept   *folder
	groups *cgroup.Root // nil without cgroups
	// notes contains the result of Notes. filter contains the system calls that programs may make.
	notes  []string
	filter *specs.LinuxSeccomp
	thread *host.Thread // sandboxes die with the thread that started them

	// mu protects closed and boxes.
	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup // calls to Start that have not returned
	boxes    map[*box]struct{}
}

// Open finds runsc and runs a sandbox. If that fails, the error states the reason in one sentence,
// for the operator. There is no weaker fallback. Open takes up to trialTime.
func Open(c Config) (*Backend, error) {
	groups, err := cgroup.Open()
	return open(c, groups, err)
}

// open opens a Backend that uses groups, which may be nil. whyNot is the reason why groups is nil.
func open(c Config, groups *cgroup.Root, whyNot error) (*Backend, error) {
	b := &Backend{python: c.Python, boxes: map[*box]struct{}{}, groups: groups, thread: host.NewThread()}
	if b.python == "" {
		b.python = "/usr/bin/python3"
	}

	b.notes = notes(whyNot)
	err := b.prepare(c)
	if err == nil {
		err = b.try()
	}
	if err != nil {
		_ = b.Close() // the error of prepare matters more
		return nil, fmt.Errorf("gVisor: %w", err)
	}
	return b, nil
}

// prepare finds the programs and creates the filter and the folder. On an error, Close removes what
// prepare has created.
func (b *Backend) prepare(c Config) (err error) {
	if err := host.SealDescriptors(); err != nil {
		return err
	}
	if b.tool, err = findTool(c.Runsc); err != nil {
		return err
	}
	if b.filter, err = newFilter(); err != nil {
		return err
	}
	if c.Folder == "" {
		c.Folder = os.TempDir()
	}
	b.kept, err = newFolder(c.Folder)
	return err
}

// notes describes the limits that are only monitored. noGroups is the reason why cgroups are
// unavailable, or nil.
func notes(noGroups error) []string {
	list := []string{
		"Processes in gVisor are not processes of the host: gVisor's kernel limits their number, which is not monitored from outside.",
		"Files in a gVisor sandbox count as memory: the memory limit applies to both together.",
	}
	if noGroups != nil {
		list = append(list, fmt.Sprintf("There are no cgroups (%v), so CPU time and memory are monitored, not limited by the kernel.", noGroups))
	}
	return list
}

// try runs a program in a trial sandbox and checks the program's view of the sandbox: its user,
// host name and working folder, and an empty /proc.
func (b *Backend) try() error {
	ctx, stop := context.WithTimeout(context.Background(), trialTime)
	defer stop()

	const program = `import os
print(os.getuid(), os.uname().nodename, os.getcwd(), *sorted(os.listdir("/proc")))`
	begun, err := b.Start(ctx, sandbox.Command{
		Args:   []string{b.python, "-I", "-S", "-c", program},
		Limits: sandbox.Limits{Memory: 512 << 20, Processes: 16, Files: 1 << 20},
	})
	if err != nil {
		return err
	}

	defer begun.Kill()
	stopped := context.AfterFunc(ctx, begun.Kill)
	defer stopped()

	// The program also prints the entries of /proc, so the output is correct only if /proc is
	// empty.
	said, err := io.ReadAll(begun.Stdout())
	if got := strings.TrimSpace(string(said)); got == fmt.Sprint(host.User, " ", host.Hostname, " ", sandbox.WorkDir) {
		return nil
	}

	select {
	case <-begun.Done():
	case <-ctx.Done():
	}

	if ctx.Err() != nil {
		return fmt.Errorf("%s did not start a sandbox within %s%s", b.tool.path, trialTime, lastLine(begun.Stderr()))
	}
	if err != nil {
		return fmt.Errorf("reading from the first sandbox: %w", err)
	}
	return fmt.Errorf("%s cannot start a sandbox on this machine%s", b.tool.path, lastLine(begun.Stderr()))
}

// lastLine returns the last line of a command's standard error, which usually states the cause of a
// failure.
func lastLine(complaint string) string {
	lines := strings.Split(strings.TrimSpace(complaint), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}

// Name returns the backend's name in the settings.
func (b *Backend) Name() string { return "gvisor" }

// Notes lists the limits that are not enforced on this machine.
func (b *Backend) Notes() []string { return b.notes }

// Start starts a command in a new sandbox. It returns before the command has begun. ctx applies
// only to the start. The sandbox ends when Kill is called, when its command ends, or when this
// process ends. After Close, Start fails.
func (b *Backend) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, err := b.enter(c.Limits)
	if err != nil {
		return nil, err
	}
	defer b.starting.Done()
	if err := b.start(ctx, x, c); err != nil {
		x.forget()
		return nil, fmt.Errorf("starting a sandbox: %w", err)
	}
	return x, nil
}

// enter creates a box and registers it for Close. The caller must call b.starting.Done after the
// start.
func (b *Backend) enter(l sandbox.Limits) (*box, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("starting a sandbox: the backend is closed")
	}
	name := "parley-" + rand.Text() // unique on the machine, because older versions of runsc listen on this name
	x := &box{backend: b, name: name, dir: filepath.Join(b.kept.path, name), limits: l, found: make(chan struct{}), done: make(chan struct{})}
	b.boxes[x] = struct{}{}
	b.starting.Add(1)
	return x, nil
}

// Close ends all sandboxes and removes the backend's files. It waits until no process of a sandbox
// is left. Further calls do nothing.
func (b *Backend) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}

	// When Wait returns, all sandboxes are registered in boxes and can be killed.
	b.starting.Wait()
	b.mu.Lock()
	living := make([]*box, 0, len(b.boxes))
	for x := range b.boxes {
		living = append(living, x)
	}
	b.mu.Unlock()

	// A kill may take several hundred milliseconds, so all sandboxes are killed simultaneously.
	var all sync.WaitGroup
	for _, x := range living {
		all.Go(x.Kill)
	}
	all.Wait()

	b.thread.End()
	err := b.kept.remove()
	if b.groups != nil {
		err = errors.Join(err, b.groups.Close())
	}
	return err
}
