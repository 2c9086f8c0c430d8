package supervise_test

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/testkit"
)

// TestPartIsRestarted kills a part, lets it crash and ends it.
func TestPartIsRestarted(t *testing.T) {
	t.Parallel()
	program := script(t, `echo is ready; read never </dev/zero`)
	p := &supervise.Part{Name: "worker 1", Launch: func(ctx context.Context) (*supervise.Instance, error) {
		return supervise.Process(ctx, program, "is ready", time.Minute)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	await(t, p)

	first, down := p.PID(), false
	if !p.Kill9(func() { down = !p.Ready() && p.PID() == 0 }) {
		t.Fatal("Kill9 = false for a part that is up")
	}
	await(t, p)
	if h := p.History(); h.Starts != 2 || len(h.Ended) != 0 || p.PID() == first || !down {
		t.Fatalf("after a kill: %+v, down before the restart: %t", h, down)
	}

	second := p.PID()
	if err := syscall.Kill(second, syscall.SIGABRT); err != nil { // as after a crash
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, "the part is restarted after a crash", func() bool { return p.History().Starts == 3 })
	if h := p.History(); len(h.Ended) != 1 || !strings.HasPrefix(h.Ended[0], "worker 1 exited unexpectedly: signal: aborted") {
		t.Fatalf("after a crash: %+v", h)
	}

	await(t, p)
	last := p.PID()
	cancel()
	if err := <-ended; err != nil || syscall.Kill(last, 0) == nil {
		t.Fatalf("after the end of ctx: %v; the process runs: %t", err, syscall.Kill(last, 0) == nil)
	}
}

// TestProcessThatIsNotReady starts a program that exits before it is ready.
func TestProcessThatIsNotReady(t *testing.T) {
	t.Parallel()
	if _, err := supervise.Process(t.Context(), script(t, "exit 3"), "is ready", time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("starting a process that exits: %v", err)
	}
}

func script(t *testing.T, text string) childproc.Program {
	t.Helper()
	return childproc.Program{Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Log: filepath.Join(t.TempDir(), "x.log")}
}

func await(t *testing.T, p *supervise.Part) {
	t.Helper()
	if err := p.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
}
