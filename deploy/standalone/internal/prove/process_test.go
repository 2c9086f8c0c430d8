package prove

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/shared/lifecycle/childproc"
)

func script(t *testing.T, ready, text string) command {
	t.Helper()
	program := childproc.Program{Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Log: filepath.Join(t.TempDir(), "x.log")}
	return command{program, ready}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	l, err := script(t, "is ready", `echo is ready; read never </dev/zero`).launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.End()
	if why := l.Why(); !strings.Contains(why, "killed") {
		t.Errorf("reason for the end = %q", why)
	}
	if _, err := script(t, "is ready", "exit 3").launch(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("starting a process that exits: %v", err)
	}

	if err := script(t, "", "exit 0").run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := script(t, "", "echo broken; exit 1").run(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("run of a failing command = %v, want an error that contains its output", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := script(t, "", "read never </dev/zero").run(ctx); err == nil {
		t.Error("run of a stopped process returned no error")
	}
}
