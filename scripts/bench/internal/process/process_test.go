package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(t.Context(), Config{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, LogsDir: t.TempDir(), Env: map[string]string{"SETTING": "value"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() }) // most tests have already stopped it
	return p
}

func logged(p *Process, text string) func(context.Context) bool {
	return func(context.Context) bool { return strings.Contains(p.Tail(), text) }
}

func TestStopEndsAProcess(t *testing.T) {
	t.Parallel()
	p := shell(t, `echo ready; trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done`)
	if err := p.Await(t.Context(), logged(p, "ready")); err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("it runs, and yet: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	if !strings.Contains(p.Tail(), "told") {
		t.Errorf("the process did not receive SIGTERM: %q", p.Tail())
	}
}

func TestAProcessThatEndsIsAnErrorWithItsLog(t *testing.T) {
	t.Parallel()
	p := shell(t, `echo "no such thing" >&2; exit 3`)
	err := p.Await(t.Context(), func(context.Context) bool { return false })
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "no such thing") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v", err)
	}
	if err := p.Stop(); !errors.Is(err, ErrEnded) {
		t.Errorf("stopping an ended process: %v", err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := shell(t, `exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Await(ctx, func(context.Context) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func TestProcessesSeeOnlyTheirSettings(t *testing.T) {
	t.Setenv("LOG_LEVEL", "trace")
	p := shell(t, `env; echo end`)
	_ = p.Await(t.Context(), logged(p, "end")) // it may have ended
	if out := p.Tail(); !strings.Contains(out, "SETTING=value") || !strings.Contains(out, "PATH=") || strings.Contains(out, "LOG_LEVEL") {
		t.Errorf("environment is %q", out)
	}
}

func TestAwaitOKWaitsForTheStatus(t *testing.T) {
	t.Parallel()
	asked := 0
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	go func() { _ = server.Serve(listener) }() // returns when it is closed
	defer server.Close()
	if err := shell(t, `exec sleep 60`).AwaitOK(t.Context(), "http://"+listener.Addr().String()); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestFreePortsAreFree is not parallel, because a process started by another test inherits
// listening sockets until it executes its program.
func TestFreePortsAreFree(t *testing.T) { //nolint:paralleltest // see above
	port, err := FreePort(t.Context())
	if err != nil || port < firstPort || port >= firstPort+portCount {
		t.Fatal(port, err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
}

func TestGroupStopsAllAndCountsTheirTime(t *testing.T) {
	t.Parallel()
	var g Group
	for i := range 3 {
		_, err := g.Start(t.Context(), Config{Name: fmt.Sprint(i), Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}, LogsDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
	}

	if _, err := g.Start(t.Context(), Config{Name: "none", Path: "/no/such/program", LogsDir: t.TempDir()}); err == nil {
		t.Error("a missing program was started")
	}
	if used, err := g.CPU(); err == nil && len(used) != 3 {
		t.Errorf("CPU times are %v", used)
	}
	if err := g.Err(); err != nil {
		t.Errorf("all run, and yet: %v", err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

func TestGroupRestarts(t *testing.T) {
	t.Parallel()
	var g Group
	first, err := g.Start(t.Context(), Config{Name: "one", Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}, LogsDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}

	second, err := g.Restart(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if first.Err() == nil || second.Err() != nil || second.PID() == first.PID() {
		t.Errorf("the first one: %v, the second one: %v", first.Err(), second.Err())
	}
	if got := g.Processes(); len(got) != 1 || got[0] != second {
		t.Errorf("the group has %v", got)
	}
	if _, err := g.Restart(t.Context(), first); err == nil {
		t.Error("a process that is no longer in the group was restarted")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}
