//go:build linux

package bubblewrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func script(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	dir := filepath.Join("/tmp", word())
	path := filepath.Join(dir, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenSaysWhyNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"no bwrap":           {Config{Bwrap: "/nonexistent/bwrap"}, "bubblewrap is not installed: program /nonexistent/bwrap not found"},
		"no interpreter":     {Config{Python: "/usr/bin/python0"}, "no Python interpreter at /usr/bin/python0"},
		"interpreter hidden": {Config{Python: script(t, 0o755, "exit")}, "is outside /usr"},
		"no interpreter but": {Config{Python: "/usr/bin/true"}, "cannot start a sandbox on this machine: /usr/bin/true printed no output (exit status 0)"},
		"namespaces forbidden": {
			Config{Bwrap: script(t, 0o755, "echo 'bwrap: No permissions to create new namespace.' >&2; echo more >&2; exit 1")},
			"cannot start a sandbox on this machine: bwrap: No permissions to create new namespace",
		},
		"no isolation": {Config{Bwrap: script(t, 0o755, "exit 0")}, "cannot start a sandbox on this machine: /usr/bin/python3.11 printed no output (exit status 0)"},
		"setuid":       {Config{Bwrap: script(t, 0o755|os.ModeSetuid, "exit 0")}, "is setuid, so its sandboxes would outlive this process"},
	} {
		b, err := Open(c.config)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: Open returned no error", name)
			continue
		}
		want := strings.ReplaceAll(c.want, "/usr/bin/python3.11", realPython(t))
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func realPython(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(python3)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDevicesOfASandboxsUserAreRefused(t *testing.T) {
	t.Parallel()
	mine := script(t, 0o600, "")
	if err := (&owners{own: true}).checkDevices([]string{mine}); err == nil || !strings.Contains(err.Error(), "must belong to root") {
		t.Errorf("this user's: %v", err)
	}
	if err := (&owners{}).checkDevices([]string{mine}); err != nil {
		t.Errorf("another user's: %v", err)
	}
	if o := (&owners{}); !o.isOne(firstOwner) || !o.isOne(firstOwner+ownerCount-1) || o.isOne(firstOwner+ownerCount) || o.isOne(0) {
		t.Error("other users are given out than are known")
	}
}

func TestSandboxesHaveUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	o := &owners{used: map[int]int{}, next: ownerCount - 1}
	seen := map[int]int{}
	for range ownerCount {
		seen[o.take()]++
	}
	if len(seen) != ownerCount || seen[firstOwner] != 1 || seen[firstOwner+ownerCount-1] != 1 {
		t.Errorf("%d users", len(seen))
	}
	o.giveBack(firstOwner + 5)
	if uid := o.take(); uid != firstOwner+5 {
		t.Errorf("%d, though another is free", uid)
	}
	o.take() // if there are more sandboxes than users, some share a user
	for uid := range seen {
		o.giveBack(uid)
	}
	if len(o.used) != 1 {
		t.Errorf("%d users are in use", len(o.used))
	}
}
