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

// Config says what to run sandboxes with. What is empty is found.
type Config struct {
	Python string // the interpreter that sandboxes must find; /usr/bin/python3
	Runsc  string // the program; else $RUNSC, else runsc on PATH
	Folder string // what is kept on the host is kept here; the system's folder for temporary files
}

// trialTime is how long the first sandbox may take: machines are slow when they have just started.
const trialTime = 30 * time.Second

// Backend makes sandboxes with runsc.
type Backend struct {
	tool   tool
	python string
	kept   *folder
	groups *cgroup.Root // nil where there are no cgroups
	notes  []string
	filter *specs.LinuxSeccomp
	thread *host.Thread // sandboxes die with the thread that started them

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup // Starts under way
	boxes    map[*box]struct{}
}

// Open finds runsc and runs a sandbox once. The error says in one sentence why that is not possible.
func Open(c Config) (*Backend, error) {
	groups, err := cgroup.Open()
	return open(c, groups, err)
}

// open is Open with the cgroups that there are, or why there are none.
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
		_ = b.Close() // why there is none is what matters
		return nil, fmt.Errorf("gVisor: %w", err)
	}
	return b, nil
}

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

func notes(noGroups error) []string {
	list := []string{
		"Processes in gVisor are not processes of the host: gVisor's kernel limits their number, and it is not monitored from outside.",
		"Files in a gVisor sandbox count as memory: the memory limit applies to both together.",
	}
	if noGroups != nil {
		list = append(list, fmt.Sprintf("There are no cgroups (%v), so CPU time and memory are monitored, not limited by the kernel.", noGroups))
	}
	return list
}

// try runs a program in a sandbox that says where it is.
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
	said, err := io.ReadAll(begun.Stdout())
	if got := strings.TrimSpace(string(said)); got == fmt.Sprint(host.User, " ", host.Hostname, " ", sandbox.WorkDir) {
		return nil
	}
	select {
	case <-begun.Done():
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not start a sandbox within %s%s", b.tool.path, trialTime, because(begun.Complaint()))
	}
	if err != nil {
		return fmt.Errorf("reading from the first sandbox: %w", err)
	}
	return fmt.Errorf("%s cannot start a sandbox on this machine%s", b.tool.path, because(begun.Complaint()))
}

// because is the last line of what was complained about: what comes before it led to it.
func because(complaint string) string {
	lines := strings.Split(strings.TrimSpace(complaint), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}

// Name is the setting's word for it.
func (b *Backend) Name() string { return "gvisor" }

// Notes says what this machine does not give.
func (b *Backend) Notes() []string { return b.notes }

// Start starts a command in a new sandbox.
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

// enter makes a box that Close knows.
func (b *Backend) enter(l sandbox.Limits) (*box, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("starting a sandbox: the backend is closed")
	}
	name := "parley-" + rand.Text() // the only one of the machine: older versions listen on it
	x := &box{backend: b, name: name, dir: filepath.Join(b.kept.path, name), limits: l, found: make(chan struct{}), done: make(chan struct{})}
	b.boxes[x] = struct{}{}
	b.starting.Add(1)
	return x, nil
}

// Close ends all sandboxes and removes what is kept on the host.
func (b *Backend) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.starting.Wait()
	b.mu.Lock()
	living := make([]*box, 0, len(b.boxes))
	for x := range b.boxes {
		living = append(living, x)
	}
	b.mu.Unlock()
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
