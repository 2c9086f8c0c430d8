//go:build linux

package bubblewrap

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/proctree"
)

// envWorker is an environment variable that makes the test binary act as a worker, which repeatedly
// starts sandboxes. Its value is passed to the commands in these sandboxes.
const envWorker = "PARLEY_TEST_BUBBLEWRAP_WORKER"

// hostile is a program that starts processes which ignore signals and leave their parent. When
// these processes exist, it prints a line.
const hostile = `
import os, signal, sys, time
for s in range(1, 64):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
r, w = os.pipe()
gate, opener = os.pipe()
for n in range(10):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(w, b"x")
        os.closerange(0, 3)
        os.close(opener)
        os.read(gate, 1)
        while True:
            try:
                if os.fork() == 0 and n % 2:
                    os._exit(0)
            except OSError:
                pass
            time.sleep(0.01)
for n in range(10):
    os.read(r, 1)
os.close(opener)
print("ready", flush=True)
while True:
    time.sleep(1000)`

// marked returns the pids of all processes whose arguments contain the given word.
func marked(tb testing.TB, word string) (pids []int) {
	tb.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("%d processes, %v", len(paths), err)
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && strings.Contains(string(line), word) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func word() string { return "parley-test-" + rand.Text() }

func TestKillEndsEverything(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		neighbour := start(t, b, code(`print(input(), flush=True)`))
		name := word()
		x := start(t, b, code(hostile, name))
		if line := make([]byte, 6); !readsFull(x.Stdout(), line) {
			t.Fatal(x.Stderr())
		}
		tree, err := proctree.Of(x.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := tree.Pids()
		if err != nil || len(pids) < 12 {
			t.Fatalf("%d processes, %v", len(pids), err)
		}
		began := time.Now()
		x.Kill()
		if took := time.Since(began); took > testkit.Within(time.Second) {
			t.Errorf("killing the sandbox took %s", took)
		}
		for _, pid := range pids { // no process may be left, not even a zombie
			if alive(pid) && len(marked(t, name)) > 0 {
				t.Errorf("process %d lives", pid)
			}
		}
		if left := marked(t, name); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
		x.Kill() // a second call has no effect
		if _, err := io.WriteString(neighbour.Stdin(), "unharmed\n"); err != nil {
			t.Error(err)
		}
		if text := said(t, neighbour); text != "unharmed\n" {
			t.Errorf("the neighbour says %q", text)
		}
	})
}

func TestTheEndOfTheCommandEndsEverything(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		name := word()
		x := start(t, b, code(strings.Replace(hostile, "while True:\n    time.sleep(1000)", "os._exit(0)", 1), name))
		if text := said(t, x); text != "ready\n" {
			t.Errorf("%q %s", text, x.Stderr())
		}
		if left := marked(t, name); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
	})
}

// A program cannot kill bwrap, although both run as the same user and bwrap is the first process of
// an outer namespace.
func TestAProgramCannotKillBwrap(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, code(`
import os, resource, signal
pid = os.fork()
if pid == 0:
    for s in signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV:
        os.kill(1, s)
    try:
        resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))
    except PermissionError:
        os._exit(7)
    os._exit(8)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`))
	if text := said(t, x); text != "7\n" {
		t.Errorf("%q %s", text, x.Stderr())
	}
}

func TestCloseEndsAllSandboxes(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		name := word()
		var wg sync.WaitGroup
		var started atomic.Int64
		for range 4 {
			wg.Go(func() {
				for previous := sandbox.Box(nil); ; {
					x, err := b.Start(t.Context(), sandbox.Command{Args: []string{"/usr/bin/sleep", "1000", name}, Limits: testLimits()})
					if err != nil {
						if !errors.Is(err, errClosed) {
							t.Error(err)
						}
						return
					}
					started.Add(1)
					if previous != nil {
						previous.Kill()
					}
					previous = x
				}
			})
		}
		testkit.Eventually(t, 10*time.Second, "sandboxes started", func() bool { return started.Load() > 12 })
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if left := marked(t, name); len(left) > 0 {
			t.Errorf("%d processes live", len(left))
		}
		if len(b.boxes) > 0 || len(b.owners.used) > 0 {
			t.Errorf("%d boxes and %d users are kept", len(b.boxes), len(b.owners.used))
		}
	})
}

func beWorker() {
	b, err := Open(Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:revive // it is a program
	}
	for {
		c := code("import time; time.sleep(1000)", os.Getenv(envWorker))
		c.Limits = testLimits()
		if _, err := b.Start(context.Background(), c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:revive // it is a program
		}
		fmt.Println("started")
	}
}

// The worker is killed at various times after it starts a sandbox, so that each stage of the start
// is tested.
func TestNothingOutlivesAKilledWorker(t *testing.T) {
	t.Parallel()
	for count := 1; count <= 12; count++ {
		name := word()
		worker := exec.CommandContext(t.Context(), os.Args[0])
		worker.Env = append(os.Environ(), envWorker+"="+name)
		worker.Stderr = os.Stderr
		lines, err := worker.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(lines)
		for range count {
			if _, err := reader.ReadString('\n'); err != nil {
				t.Error("the worker ended:", err)
			}
		}
		if len(marked(t, name)) == 0 {
			t.Error("no process is marked")
		}
		_ = worker.Process.Kill()
		_ = worker.Wait() // the worker was killed
		testkit.Eventually(t, 3*time.Second, fmt.Sprintf("nothing is left of %d sandboxes", count), func() bool { return len(marked(t, name)) == 0 })
	}
}

// A worker may die before the kernel has registered that bwrap must die with it. bwrap then
// continues with the input that it has received so far.
func TestNothingRunsOfAWorkerThatDiedWhileStarting(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	c := code("print('it runs')")
	c.Limits = testLimits()
	x := &box{backend: b, limits: c.Limits, owner: b.owners.take(), done: make(chan struct{})}
	err := x.prepare(c)
	if err == nil {
		err = x.gate.Close() // the kernel also closes the gate if the worker dies
	}
	if err == nil {
		err = x.cmd.Start()
	}
	x.closeChildFiles()
	if err != nil {
		t.Fatal(err)
	}
	go x.wait()
	if text := said(t, x); text != "" || !strings.Contains(x.Stderr(), "execvp "+python3) {
		t.Errorf("%q, %q", text, x.Stderr())
	}
}

// The tests run again as an unprivileged user, whose sandboxes must give the same guarantees.
func TestEverythingAsAnotherUser(t *testing.T) { //nolint:paralleltest // it runs the other tests
	if os.Geteuid() != 0 {
		t.Skip("this user is already unprivileged")
	}
	dir := filepath.Join("/tmp", word())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tests"), binary, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "tests"), "-test.v", "-test.timeout=120s",
		"-test.run=^Test(Honest|Only|Nothing|Usage|Folders|TheHosts|Kill|TheEnd|AProgram|Close|Stderr|SandboxesStart)")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	text, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(text), "--- SKIP") || !strings.Contains(string(text), "--- PASS: TestHonestProgramsRun") {
		t.Errorf("%v:\n%s", err, text)
	}
}
