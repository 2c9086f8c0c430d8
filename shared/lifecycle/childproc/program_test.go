package childproc

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func script(t *testing.T, text string) Program {
	t.Helper()
	dir := t.TempDir()
	return Program{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", text}, Env: []string{"WHAT=hello"}, Dir: dir, Log: filepath.Join(dir, "x.log"),
	}
}

func TestProcessIsReadyAndKilled(t *testing.T) {
	t.Parallel()
	c := script(t, `echo "$WHAT, is ready; $HOME"; read never </dev/zero`)
	for range 2 { // the output of the first process must not make the second process count as ready
		p, err := c.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.AwaitReady(t.Context(), func() bool { return bytes.Contains(p.Output(), []byte("is ready")) }); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(p.Output())); got != "hello, is ready;" {
			t.Errorf("output = %q", got)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if !p.Ended() {
			t.Error("the process is still running after Kill")
		}
		if why := p.Why(); !strings.Contains(why, "killed") {
			t.Errorf("reason for the end = %q", why)
		}
	}
}

func TestProcessThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	never := func() bool { return false }
	ended, err := script(t, "echo no port; exit 3").Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := ended.AwaitReady(t.Context(), never); err == nil || !strings.Contains(err.Error(), "script exited: exit status 3: no port") {
		t.Errorf("starting a process that exits: %v", err)
	}

	hangs, err := script(t, "read never </dev/zero").Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hangs.Kill() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := hangs.AwaitReady(ctx, never); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("starting a process that hangs: %v", err)
	}
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(t.Context(), 3)
	if err != nil || len(ports) != 3 || ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
		t.Errorf("ports = %v, %v", ports, err)
	}
}
