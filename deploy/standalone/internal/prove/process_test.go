package prove

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func script(t *testing.T, ready, text string) command {
	t.Helper()
	dir := t.TempDir()
	return command{path: "/bin/sh", args: []string{"-c", text}, env: []string{"WHAT=hello"}, dir: dir, log: filepath.Join(dir, "logs", "x.log"), ready: ready}
}

func TestProcessIsReadyAndKilled(t *testing.T) {
	t.Parallel()
	c := script(t, "is ready", `echo "$WHAT, is ready; $HOME"; read never </dev/zero`)
	for range 2 { // the output of the first process must not make the second process count as ready
		l, err := c.launch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := l.(*process)
		if got := strings.TrimSpace(string(p.output())); got != "hello, is ready;" {
			t.Errorf("output = %q", got)
		}
		if err := l.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Done():
		default:
			t.Error("the process is still running after Kill")
		}
		if why := l.Why(); !strings.Contains(why, "killed") {
			t.Errorf("reason for the end = %q", why)
		}
	}
}

func TestProcessThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	if _, err := script(t, "is ready", "echo no port; exit 3").launch(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3: no port") {
		t.Errorf("starting a process that exits: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := script(t, "is ready", "read never </dev/zero").launch(ctx); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("starting a process that hangs: %v", err)
	}
	if err := script(t, "", "exit 0").run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := script(t, "", "echo broken; exit 1").run(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("run of a failing command = %v, want an error that contains its output", err)
	}
	if err := script(t, "", "read never </dev/zero").run(ctx); err == nil {
		t.Error("run of a stopped process returned no error")
	}
}
