package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/seccomp"
)

func TestFoldersOfTheDeadAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dead, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dead.path, "b1", rootDir), 0o700); err != nil {
		t.Fatal(err)
	}
	living, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	exists := func(f *folder, want bool) {
		t.Helper()
		if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("%s: %v", f.path, err)
		}
	}
	exists(dead, true) // its owner is still alive
	// Release the lock explicitly. Closing the file would not be enough, because a program that a
	// parallel test is starting shares the lock until its exec.
	if err := errors.Join(syscall.Flock(int(dead.lock.Fd()), syscall.LOCK_UN), dead.lock.Close()); err != nil {
		t.Fatal(err)
	}
	another := filepath.Join(parent, "other-gvisor-1")
	if err := os.Mkdir(another, 0o700); err != nil {
		t.Fatal(err)
	}
	last, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	exists(dead, false)
	exists(living, true)
	if err := errors.Join(living.remove(), last.remove(), last.remove()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 1 || left[0].Name() != filepath.Base(another) {
		t.Errorf("left is %v", left)
	}
}

func TestOptionsOfVersions(t *testing.T) {
	t.Parallel()
	old := map[string]string{
		"platform": "ptrace (default), kvm", "network": "", "oci-seccomp": "", "ignore-cgroups": "", "overlay2": "", "file-access": "",
		"rootless": "", "host-uds": "",
	}
	options, err := choose(old, true)
	if err != nil || !slices.Contains(options, "-platform=ptrace") || !slices.Contains(options, "-host-uds=none") {
		t.Errorf("of an old version: %v, %v", options, err)
	}
	if slices.Contains(options, "-directfs=false") || slices.Contains(options, "-rootless") {
		t.Errorf("options that this runsc does not know or need: %v", options)
	}
	fresh := map[string]string{"directfs": ""}
	for name := range old {
		fresh[name] = ""
	}
	fresh["platform"] = "systrap (default), ptrace, kvm"
	options, err = choose(fresh, false)
	for _, want := range []string{"-platform=systrap", "-directfs=false", "-rootless", "-network=none", "-oci-seccomp"} {
		if err != nil || !slices.Contains(options, want) {
			t.Errorf("of a new version: %v, %v, without %s", options, err, want)
		}
	}
	delete(fresh, "oci-seccomp")
	if options, err = choose(fresh, false); err == nil {
		t.Errorf("without a filter of system calls: %v", options)
	}
}

// TestFilterIsWhole checks that the filter for runsc contains all rules.
func TestFilterIsWhole(t *testing.T) {
	t.Parallel()
	f, err := newFilter()
	if err != nil {
		t.Fatal(err)
	}
	reported := 0
	for _, c := range f.Syscalls {
		reported += len(c.Names)
		seen := map[uint]bool{}
		for _, a := range c.Args {
			if seen[a.Index] {
				t.Errorf("%v has two conditions of argument %d, of which runsc wants one", c.Names, a.Index)
			}
			seen[a.Index] = true
		}
		if slices.Contains(c.Names, "clone3") && c.Action != actAbsent {
			t.Errorf("clone3 is %s", c.Action)
		}
	}
	if want := len(seccomp.Rules(false)) + len(alias); reported != want || f.DefaultAction != actRefuse {
		t.Errorf("want %d rules, got %d; the default is %s", want, reported, f.DefaultAction)
	}
}

func TestDataLiesWhereItIsSeen(t *testing.T) {
	t.Parallel()
	mounts := []specs.Mount{{Destination: "/usr/lib"}}
	for path, ok := range map[string]bool{
		"/parley/main.py": true, "/usr/share/parley/x": true, "/usr/lib/x": false, "/work/x": false, "/tmp/a/b": false, "/proc/x": false,
		"parley/x": false, "/parley/../work/x": false, "/parley/": false, "/top": false, "": false,
	} {
		root := t.TempDir()
		err := put(root, sandbox.Data{Path: path, Content: []byte("x")}, mounts)
		if (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
		if !ok {
			continue
		}
		if is, err := os.Stat(filepath.Join(root, path)); err != nil || is.Mode().Perm() != 0o444 {
			t.Errorf("%q: %v, %v", path, is, err)
		}
	}
}
