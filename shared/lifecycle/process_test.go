package lifecycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/lifecycle/childproc"
)

// The tests of signals and locks need separate processes. Each is this test
// binary, started again with a role in the environment variable roleKey.
const roleKey = "LIFECYCLE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleKey) {
	case "":
		os.Exit(m.Run())
	case "obedient": // ends after the first signal
		ctx, cancel := Context(context.Background())
		defer cancel()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
	case "stubborn": // ignores the first signal
		ctx, cancel := Context(context.Background())
		defer cancel()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("stopping")
		select {}
	case "released": // restores the default handling of signals
		_, cancel := Context(context.Background())
		cancel()
		fmt.Println("ready")
		select {}
	case "locker":
		lock, err := LockFile(os.Args[1])
		fmt.Println("ready")
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = lock
	}
}

// process is this test binary, started again in another role.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
	stdin io.WriteCloser
}

func start(t *testing.T, role string, args ...string) process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleKey+"="+role)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return process{Cmd: cmd, lines: bufio.NewScanner(stdout), stdin: stdin}
}

func (p process) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("no more output: %v", p.lines.Err())
	}
	return p.lines.Text()
}

func TestContextHearsSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, "obedient")
			p.line(t)
			if err := p.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if got := p.line(t); got != "received "+signal.String() {
				t.Fatalf("cause %q", got)
			}
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestSecondSignalExitsImmediately(t *testing.T) {
	t.Parallel()
	p := start(t, "stubborn")
	p.line(t)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.line(t)
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Fatalf("ended with %v", err)
	}
}

func TestReleasedSignalsKill(t *testing.T) {
	t.Parallel()
	p := start(t, "released")
	p.line(t)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Fatalf("ended with %v", err)
	}
}

func TestLockFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	owner := start(t, "locker", path)
	owner.line(t)
	if got := owner.line(t); got != "<nil>" {
		t.Fatalf("first lock: %s", got)
	}
	_, err := LockFile(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(owner.Process.Pid)) {
		t.Fatalf("second lock: %v", err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	lock, err := LockFile(path)
	if err != nil {
		t.Fatalf("lock of a dead process: %v", err)
	}
	if _, err := LockFile(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("lock taken twice in one process: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := LockFile(path)
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// inheritedLock returns a locked file and a child process that has inherited the lock.
func inheritedLock(t *testing.T) (path string, lock *Lock, child *childproc.Child) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "lock")
	lock, err := LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.ExtraFiles = []*os.File{lock.File()}
	if child, err = childproc.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return path, lock, child
}

func TestUnlockedWhereverItIsOpen(t *testing.T) {
	t.Parallel()
	path, lock, child := inheritedLock(t)
	defer func() { _ = child.Signal(syscall.SIGKILL) }()
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := LockFile(path)
	if err != nil {
		t.Fatalf("lock after unlock: %v", err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("unlocked twice: %v", err)
	}
}

func TestInheritedLockOutlivesItsFirstHolder(t *testing.T) {
	t.Parallel()
	path, lock, child := inheritedLock(t)
	if err := lock.Leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := LockFile(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("lock although the child has it: %v", err)
	}
	if child.Ended() || child.Err() != nil {
		t.Fatal("ended before its time")
	}
	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signalling the dead: %v", err)
	}
	if !child.Ended() || child.Err() == nil {
		t.Fatalf("ended by a signal, but says %v", child.Err())
	}
	// If another test is starting a process at this moment, that process also holds the lock until
	// it executes its program.
	last, err := LockFile(path)
	for end := time.Now().Add(10 * time.Second); errors.Is(err, ErrLocked) && time.Now().Before(end); last, err = LockFile(path) {
		<-time.After(time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := last.Unlock(); err != nil {
		t.Fatal(err)
	}
}
