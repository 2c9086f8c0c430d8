package python

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"parley/shared/testkit"
)

// openBare opens an interpreter on a new bareBackend. The test can make starts of sandboxes fail
// with the method failWith.
func openBare(t *testing.T, warm int, report func(error)) (*bareBackend, *Interpreter) {
	t.Helper()
	backend := newBare(t)
	i, err := Open(backend, Config{Limits: testLimits, Warm: warm, Report: report})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	return backend, i
}

func (b *bareBackend) failWith(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

func (b *bareBackend) started() (starts int, last *bareBox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts, b.boxes[len(b.boxes)-1]
}

func print1(t *testing.T, i *Interpreter) {
	t.Helper()
	if o, err := i.Run(t.Context(), Program{Code: "print(1)"}); err != nil || o.Stdout != "1\n" {
		t.Error(o, err)
	}
}

func TestPoolIsRefilled(t *testing.T) {
	t.Parallel()
	backend, i := openBare(t, 2, nil)
	waitReady(t, i)
	if starts, _ := backend.started(); starts != 3 {
		t.Errorf("%d sandboxes for the first program and the pool", starts)
	}
	for range 3 {
		print1(t, i)
	}
	waitReady(t, i)
	if starts, _ := backend.started(); starts < 6 {
		t.Errorf("%d sandboxes: one was used twice", starts)
	}
}

func TestSandboxThatDiesWhileItWaits(t *testing.T) {
	t.Parallel()
	backend, i := openBare(t, 1, nil)
	waitReady(t, i)
	_, last := backend.started()
	last.Kill()
	print1(t, i)
	waitReady(t, i)
	if starts, _ := backend.started(); starts < 3 {
		t.Errorf("%d sandboxes", starts)
	}
}

func TestSandboxThatIsDeadWhenItIsTaken(t *testing.T) {
	t.Parallel()
	backend, i := openBare(t, 1, nil)
	waitReady(t, i)
	_, last := backend.started()
	b := i.pool.take()
	last.Kill()
	if _, err := i.exchange(t.Context(), b, Program{Code: "print(1)"}); !errors.Is(err, errNotBegun) {
		t.Error(err)
	}
}

func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	failure := errors.New("no more of them")
	reported := make(chan error, 100)
	backend, i := openBare(t, 1, func(err error) { reported <- err })
	waitReady(t, i)
	backend.failWith(failure)
	print1(t, i) // runs in the warm sandbox
	if err := <-reported; !errors.Is(err, failure) {
		t.Error(err)
	}
	if _, err := i.Run(t.Context(), Program{Code: "print(1)"}); !errors.Is(err, failure) {
		t.Error(err)
	}
	for range 2 {
		if err := <-reported; !errors.Is(err, failure) {
			t.Error(err)
		}
	}
	if missing, wait := i.pool.want(); !missing || wait < 4*backoffFirst || wait > maxBackoff {
		t.Errorf("the next try comes after %v", wait)
	}
	backend.failWith(nil)
	waitReady(t, i)
	print1(t, i)
}

func TestOpenOnABackendThatFails(t *testing.T) {
	t.Parallel()
	backend := newBare(t)
	backend.failWith(errors.New("none"))
	if _, err := Open(backend, Config{Limits: testLimits}); err == nil {
		t.Error("opened")
	}
	if _, err := Open(newBare(t), Config{Limits: testLimits, Path: "/usr/bin/true"}); !errors.Is(err, errNotBegun) {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	_, i := openBare(t, 2, nil)
	waitReady(t, i)
	var runs sync.WaitGroup
	for range 3 {
		runs.Go(func() {
			if _, err := i.Run(t.Context(), Program{Code: "import time\ntime.sleep(60)"}); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = i.Close() })
	runs.Wait()
	_ = i.Close()
	if _, err := i.Run(t.Context(), Program{Code: "print(1)"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if b := i.pool.take(); b != nil {
		t.Error("a sandbox is left")
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	_, i := openBare(t, 2, nil)
	var runs sync.WaitGroup
	for range 20 {
		runs.Go(func() { print1(t, i) })
	}
	runs.Wait()
}

// TestProgramThatKillsItsRunner uses backends in which a program is able to kill the runner.
func TestProgramThatKillsItsRunner(t *testing.T) {
	t.Parallel()
	_, i := openBare(t, 0, nil)
	o, err := i.Run(t.Context(), Program{Code: "import os, time\nprint('before', flush=True)\ntime.sleep(.2)\nos.kill(os.getppid(), 9)\ntime.sleep(60)"})
	if err != nil || o.ExitCode != -9 || o.Stdout != "before\n" || o.Limit != "" {
		t.Error(o, err)
	}
	began := time.Now()
	o, err = i.Run(t.Context(), Program{Code: "import os, time\nprint('before', flush=True)\ntime.sleep(.2)\nos.kill(os.getppid(), 19)\ntime.sleep(60)", Wall: time.Second})
	if err != nil || o.ExitCode != -9 || o.Stdout != "before\n" || o.Limit != "wall" || time.Since(began) > testkit.Within(5*time.Second) {
		t.Error(o, err)
	}
}

func TestWaitingCostsNoTime(t *testing.T) {
	t.Parallel()
	i, err := Open(newReal(t), Config{Limits: testLimits, Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	waitReady(t, i)
	b := i.pool.take()
	defer b.Kill()
	rests(t, b)
}

// rests waits until a warm box is ready and no longer uses processor time.
func rests(t *testing.T, b *box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, since := time.Duration(-1), time.Now()
	for ctx.Err() == nil {
		usage, err := b.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if usage.CPU != last {
			last, since = usage.CPU, time.Now()
		}
		if time.Since(since) > 500*time.Millisecond {
			return
		}
		<-tick.C
	}
	t.Fatalf("the sandbox does not become idle: it has used %v", last)
}
