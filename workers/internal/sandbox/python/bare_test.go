package python

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"parley/workers/internal/sandbox"
)

// bareBackend uses only the namespaces of bubblewrap. In such a sandbox, a program that kills all
// visible processes can kill only its runner. bareBackend enforces no limits. It counts starts, and
// tests can make starts fail.
type bareBackend struct {
	dir string

	mu     sync.Mutex
	boxes  []*bareBox
	fail   error
	starts int
	usage  func() (sandbox.Usage, error)
}

type bareBox struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	errors *bytes.Buffer
	done   chan struct{}
	usage  func() (sandbox.Usage, error)
}

func newBare(tb testing.TB) *bareBackend {
	tb.Helper()
	b := &bareBackend{dir: tb.TempDir(), usage: func() (sandbox.Usage, error) { return sandbox.Usage{}, nil }}
	tb.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *bareBackend) Name() string    { return "bare" }
func (b *bareBackend) Notes() []string { return nil }

func bareArgs() []string {
	return []string{
		"--unshare-all", "--die-with-parent", "--clearenv", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink",
		"usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try",
		"/etc/fonts", "/etc/fonts", "--ro-bind-try", "/etc/matplotlibrc", "/etc/matplotlibrc", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/work",
		"--size", "67108864", "--tmpfs", "/tmp", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
	}
}

func (b *bareBackend) Start(_ context.Context, c sandbox.Command) (sandbox.Box, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts++
	if b.fail != nil {
		return nil, b.fail
	}
	args := bareArgs()
	for _, e := range c.Env {
		name, value, _ := bytes.Cut([]byte(e), []byte("="))
		args = append(args, "--setenv", string(name), string(value))
	}
	for _, d := range c.Data {
		path := filepath.Join(b.dir, filepath.Base(d.Path))
		if _, err := os.Stat(path); err != nil { // the content for a name is always the same, so an existing file is kept
			if err := os.WriteFile(path, d.Content, 0o600); err != nil {
				return nil, err
			}
		}
		args = append(args, "--ro-bind", path, d.Path)
	}
	cmd := exec.Command("bwrap", append(append(args, "--"), c.Args...)...) //nolint:noctx // the command outlives ctx, which applies only to the start
	box := &bareBox{cmd: cmd, errors: &bytes.Buffer{}, done: make(chan struct{}), usage: b.usage}
	in, out, err := box.start()
	if err != nil {
		return nil, err
	}
	box.in, box.out = in, out
	b.boxes = append(b.boxes, box)
	return box, nil
}

func (x *bareBox) start() (io.WriteCloser, io.Reader, error) {
	x.cmd.Stderr = x.errors
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := x.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	x.cmd.Stdout = write
	err = x.cmd.Start()
	_ = write.Close()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_ = x.cmd.Wait()
		close(x.done)
	}()
	return in, out, nil
}

func (x *bareBox) Stdin() io.WriteCloser         { return x.in }
func (x *bareBox) Stdout() io.Reader             { return x.out }
func (x *bareBox) Usage() (sandbox.Usage, error) { return x.usage() }
func (x *bareBox) Done() <-chan struct{}         { return x.done }

func (x *bareBox) Kill() {
	select {
	case <-x.done:
	default:
		_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL) // kill the child, too, because it may outlive a bwrap that was started a moment ago
		<-x.done
	}
}

func (x *bareBox) Stderr() string {
	<-x.done
	return x.errors.String()
}

func (b *bareBackend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, box := range b.boxes {
		box.Kill()
	}
	return nil
}
