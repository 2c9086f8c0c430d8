package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/host"
	"parley/workers/internal/sandbox/seccomp"
)

// Config configures a Backend that uses bwrap. Empty fields have defaults.
type Config struct {
	Bwrap  string // path of bwrap; "" means the bwrap in PATH
	Python string // the interpreter in sandboxes; "" means /usr/bin/python3
}

// Backend creates sandboxes with bwrap.
type Backend struct {
	bwrap  []string // the command that starts bwrap, without bwrap's own arguments
	view   []string // bwrap's arguments for the host files that every sandbox contains
	filter []byte
	groups *cgroup.Root // nil without cgroups
	notes  []string
	owners *owners
	thread *host.Thread // sandboxes die with the thread that started them

	starting sync.RWMutex // held for reading while a sandbox is being started
	closed   bool         // guarded by starting

	mu    sync.Mutex
	boxes map[*box]bool
}

var errClosed = errors.New("the sandbox backend is closed")

// Open runs a sandbox to check that this machine supports sandboxes. If it does not, the error
// states the reason in one sentence.
func Open(c Config) (*Backend, error) {
	groups, whyNot := cgroup.Open()
	b, err := open(c, groups, whyNot)
	if err != nil && groups != nil {
		err = errors.Join(err, groups.Close())
	}
	return b, err
}

// open opens a Backend that uses groups, which may be nil. It takes ownership of groups unless it
// returns an error. whyNot is the reason why groups is nil.
func open(c Config, groups *cgroup.Root, whyNot error) (*Backend, error) {
	bwrap, err := program(orDefault(c.Bwrap, "bwrap"))
	if err != nil {
		return nil, err
	}

	python, err := interpreter(orDefault(c.Python, "/usr/bin/python3"))
	if err != nil {
		return nil, err
	}

	// Without cgroups, memory is measured per process. In this case, the filter of system calls
	// also forbids kinds of memory that such measurements would miss.
	filter, err := seccomp.Filter(groups == nil)
	if err != nil {
		return nil, err
	}

	devices := devicesFor(groups == nil)
	b := &Backend{
		view: viewFor(python, devices), filter: filter, groups: groups,
		owners: newOwners(), boxes: map[*box]bool{},
	}

	if err := b.owners.checkDevices(devices); err != nil {
		return nil, err
	}
	if groups == nil {
		b.notes = append(b.notes, fmt.Sprintf(
			"Memory, processes and CPU time of a sandbox are monitored, not limited by the kernel: %s.", whyNot))
	}

	// The result of launcher depends on the thread that starts sandboxes, so launcher runs on that
	// thread.
	b.thread = host.NewThread()
	_ = b.thread.Do(context.Background(), func() error { // cannot fail: the thread is new, and ctx has no deadline
		b.bwrap = launcher(bwrap)
		return nil
	})

	if err := b.try(python); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

// orDefault returns s, or the argument other if s is empty.
func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// program returns the path of bwrap. It rejects a setuid program: when such a program starts, the
// kernel clears its parent death signal, and the sandbox could outlive the worker.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("bubblewrap is not installed: program %s not found", name)
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		err = fmt.Errorf("%s is setuid, so its sandboxes would outlive this process: run chmod u-s on it", path)
	}
	return path, err
}

// interpreter returns the path that a Python interpreter has in sandboxes.
func interpreter(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("no Python interpreter at %s", path)
	}
	for _, dir := range []string{"/usr/bin/", "/usr/lib/", "/usr/local/bin/", "/usr/local/lib/"} {
		if strings.HasPrefix(target, dir) {
			return target, nil
		}
	}
	return "", fmt.Errorf("the Python interpreter %s is outside /usr, the only folder that is visible in a sandbox", target)
}

// Name returns the backend's name in the settings.
func (b *Backend) Name() string { return "bubblewrap" }

// Notes describes the limits that this machine cannot enforce and that are only monitored.
func (b *Backend) Notes() []string { return b.notes }

// Start starts a command in a new sandbox. It returns before the command runs.
func (b *Backend) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	return b.start(ctx, c)
}

// start does the same as Start but returns the concrete type *box.
func (b *Backend) start(ctx context.Context, c sandbox.Command) (*box, error) {
	if err := check(c); err != nil {
		return nil, err
	}

	// Many sandboxes may start simultaneously, so each start holds the lock for reading. Close
	// takes the lock for writing and so waits for all of them.
	b.starting.RLock()
	defer b.starting.RUnlock()
	if b.closed {
		return nil, errClosed
	}

	// If a step fails, abandon releases the resources that prepare has created.
	x := &box{backend: b, limits: c.Limits, givesWay: c.GivesWay, owner: b.owners.take(), done: make(chan struct{})}
	if err := x.prepare(c); err != nil {
		x.abandon()
		return nil, fmt.Errorf("preparing sandbox: %w", err)
	}
	if err := b.launch(ctx, x); err != nil {
		x.abandon()
		return nil, fmt.Errorf("starting sandbox: %w", err)
	}
	go x.wait()
	return x, nil
}

// launch starts a box on the backend's thread and registers it for Close.
func (b *Backend) launch(ctx context.Context, x *box) error {
	if err := b.thread.Do(ctx, x.launch); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boxes[x] = true
	return nil
}

// forget removes a box that has ended from the list for Close.
func (b *Backend) forget(x *box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boxes, x)
}

// Close ends all sandboxes. Afterwards, no sandbox can be started.
func (b *Backend) Close() error {
	b.end()
	if b.groups == nil {
		return nil
	}
	return b.groups.Close()
}

// end prevents further starts, kills all sandboxes and ends the thread.
func (b *Backend) end() {
	b.starting.Lock()
	b.closed = true
	b.starting.Unlock()

	b.mu.Lock()
	boxes := slices.Collect(maps.Keys(b.boxes))
	b.mu.Unlock()
	for _, x := range boxes {
		x.Kill()
	}
	b.thread.End()
}
