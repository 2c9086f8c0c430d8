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

// Config says what sandboxes are made with.
type Config struct {
	Bwrap  string // the program; "" is bwrap on PATH
	Python string // the interpreter that sandboxes show; "" is /usr/bin/python3
}

// Backend makes sandboxes with bwrap.
type Backend struct {
	bwrap  []string // the command that becomes bwrap, before its arguments
	view   []string // arguments of bwrap: what every sandbox shows
	filter []byte
	groups *cgroup.Root // nil: there are none
	notes  []string
	owners *owners
	thread *host.Thread // sandboxes die with the thread that started them

	starting sync.RWMutex // held for reading by who starts a sandbox
	closed   bool         // under starting

	mu    sync.Mutex
	boxes map[*box]bool
}

var errClosed = errors.New("the sandbox backend is closed")

// Open checks that sandboxes can be made on this machine, by making one. The error says in one sentence why not.
func Open(c Config) (*Backend, error) {
	groups, whyNot := cgroup.Open()
	b, err := open(c, groups, whyNot)
	if err != nil && groups != nil {
		err = errors.Join(err, groups.Close())
	}
	return b, err
}

// open takes over the groups, which may be nil, when there is no error.
func open(c Config, groups *cgroup.Root, whyNot error) (*Backend, error) {
	bwrap, err := program(orElse(c.Bwrap, "bwrap"))
	if err != nil {
		return nil, err
	}
	python, err := interpreter(orElse(c.Python, "/usr/bin/python3"))
	if err != nil {
		return nil, err
	}
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
	b.thread = host.NewThread()
	_ = b.thread.Do(context.Background(), func() error { // it was made just now, and takes what it is given
		b.bwrap = launcher(bwrap)
		return nil
	})
	if err := b.try(python); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// program finds bwrap. One that takes another user's rights when it starts forgets whose death it is to follow.
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

// interpreter is where a Python is, as sandboxes see it.
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
	return "", fmt.Errorf("the Python interpreter %s is outside of /usr, which is the only folder visible in a sandbox", target)
}

// Name is the setting's word for it.
func (b *Backend) Name() string { return "bubblewrap" }

// Notes says what is watched instead of limited here.
func (b *Backend) Notes() []string { return b.notes }

// Start starts a command in a new sandbox; it returns before the command runs.
func (b *Backend) Start(ctx context.Context, c sandbox.Command) (sandbox.Box, error) {
	return b.start(ctx, c)
}

func (b *Backend) start(ctx context.Context, c sandbox.Command) (*box, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	b.starting.RLock()
	defer b.starting.RUnlock()
	if b.closed {
		return nil, errClosed
	}
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

// launch starts a box on the thread that is there for it, and keeps it for Close.
func (b *Backend) launch(ctx context.Context, x *box) error {
	if err := b.thread.Do(ctx, x.launch); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.boxes[x] = true
	return nil
}

func (b *Backend) forget(x *box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boxes, x)
}

// Close ends all sandboxes, and starts no more.
func (b *Backend) Close() error {
	b.end()
	if b.groups == nil {
		return nil
	}
	return b.groups.Close()
}

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
