package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install puts programs that report the given version into a directory.
func install(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s (Debian)'\n", version)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	globs := []string{filepath.Join(root, "lib", "*", "bin")}
	for major, version := range map[string]string{"9": "9.6.24", "15": "15.18", "17": "17.2", "18": "18beta1"} {
		install(t, filepath.Join(root, "lib", major, "bin"), version)
	}
	inPath := install(t, filepath.Join(root, "path"), "16.4")
	old := install(t, filepath.Join(root, "old"), "12.1")
	half := install(t, filepath.Join(root, "half"), "18.1")
	if err := os.Remove(filepath.Join(half, "initdb")); err != nil {
		t.Fatal(err)
	}
	list := func(dirs ...string) string { return strings.Join(dirs, string(os.PathListSeparator)) }
	tests := []struct {
		name  string
		path  string
		globs []string
		major int
		want  string
		says  []string
	}{
		{"in path first", list("", "/nowhere", half, old, inPath), globs, 0, "16.4", nil},
		{"newest elsewhere", list(old, half), globs, 0, "18beta1", nil},
		{"the one of the data", list(inPath), globs, 15, "15.18", nil},
		{"an old one of the data", list(inPath), globs, 9, "9.6.24", nil},
		{"not the one of the data", list(inPath), nil, 15, "", []string{"created by version 15", "16.4", installCommand + "-15"}},
		{"only an old one", list(old), nil, 0, "", []string{"version 14", "12.1", installCommand}},
		{"none", "", nil, 0, "", []string{"none is installed", installCommand}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found, err := find(t.Context(), test.path, test.globs, test.major)
			if test.want != "" {
				if err != nil || found.Version != test.want || filepath.Base(found.Initdb) != "initdb" {
					t.Fatalf("found %+v, %v", found, err)
				}
				return
			}
			if !errors.Is(err, ErrNotInstalled) {
				t.Fatalf("found %+v, %v", found, err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFindHere(t *testing.T) {
	t.Parallel()
	found, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.Major < oldestMajor || !strings.HasPrefix(found.Version, fmt.Sprint(found.Major)) {
		t.Fatalf("found %+v", found)
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := openLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.file.Close()
	line := append(bytes.Repeat([]byte("x"), 1023), '\n')
	for range 3 * logLimit / len(line) {
		if _, err := log.file.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := log.file.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	if tail := log.tail(); tail != "after" {
		t.Fatalf("tail %q", tail)
	}
	for name, want := range map[string]int64{"server.log": 6, "server.log.1": logLimit} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() != want || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v %v", name, info, err)
		}
	}
	next, err := openLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer next.file.Close()
	if tail := next.tail(); tail != "" {
		t.Fatalf("tail of another run: %q", tail)
	}
}

func TestWholeTreeIsGivenAway(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can give files away: nothing to test")
		return
	}
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "a", "link")); err != nil {
		t.Fatal(err)
	}
	nobody := account{uid: 65534, gid: 65534, switched: true}
	if err := nobody.chown(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{dir: 65534, filepath.Join(dir, "a", "b"): 65534, outside: 0} {
		if owner, err := accountFor(path); want != 0 && (err != nil || owner.uid != want) {
			t.Errorf("%s: %+v, %v", path, owner, err)
		} else if want == 0 && owner.uid == 65534 {
			t.Errorf("%s was given away through a link", path)
		}
	}
}
