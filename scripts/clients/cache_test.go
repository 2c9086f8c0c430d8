package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
)

// keptFor is the time after which an unused directory is removed, if one for other inputs is
// filled. It is shorter than that of testkit.CacheDir, because the directories are large.
const keptFor = 48 * time.Hour

// inputs is the hash of everything that determines the content of a directory in the cache.
type inputs struct{ sum hash.Hash }

// of returns the hash of texts, such as a command and the version of its program.
func of(texts ...string) *inputs {
	in := &inputs{sha256.New()}
	return in.and(texts...)
}

// and adds texts to the hash.
func (in *inputs) and(texts ...string) *inputs {
	for _, text := range texts {
		_, _ = fmt.Fprintf(in.sum, "%d %s\n", len(text), text) // a hash never fails
	}
	return in
}

// programs adds the location, size and time of installation of programs, because their outcome may
// depend on their versions.
func (in *inputs) programs(t *testing.T, names ...string) *inputs {
	t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		in.and(path, fmt.Sprint(info.Size()), info.ModTime().UTC().String())
	}
	return in
}

// environment adds the variables that the programs of node and python read.
func (in *inputs) environment() *inputs {
	for _, variable := range slices.Sorted(slices.Values(os.Environ())) {
		for _, prefix := range []string{"NODE_", "NPM_", "npm_", "PIP_", "PYTHON"} {
			if strings.HasPrefix(variable, prefix) {
				in.and(variable)
			}
		}
	}
	return in
}

// files adds the names and the contents of the regular files in a directory of the repository. If
// path is a file, it adds this file.
func (in *inputs) files(t *testing.T, path ...string) *inputs {
	t.Helper()
	root := filepath.Join(append([]string{testkit.Root(t)}, path...)...)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "dist" || entry.Name() == "__pycache__") {
			return filepath.SkipDir // files that are built, and that the tests do not copy
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(file)
		in.and(file[len(root):], string(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// cached returns a directory that fill has filled. The directory is in the cache of the user, and
// its name is the hash of the inputs. fill therefore runs only once on a machine for the same
// inputs. If fill fails the test, the cache keeps nothing. fill must not store the path of its
// directory, because the directory is renamed when it is complete. Tests share the directory, so
// they must not change it.
func cached(t *testing.T, name string, in *inputs, fill func(draft string)) (dir string) {
	t.Helper()
	cache, err := testkit.CacheDir()
	if err != nil {
		t.Fatal(err)
	}

	prefix := "clients-" + name + "-"
	dir = filepath.Join(cache, prefix+hex.EncodeToString(in.sum.Sum(nil)[:8]))
	if testkit.Used(dir) {
		return dir
	}

	dropUnused(filepath.Join(cache, prefix+"*"))
	draft, err := os.MkdirTemp(cache, prefix+"draft-") //nolint:usetesting // renamed to dir, which all test processes share
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(draft) // has no effect after the rename

	if fill(draft); t.Failed() {
		t.FailNow()
	}
	if err := os.Rename(draft, dir); err != nil {
		if _, other := os.Stat(dir); other != nil { // another test process may have been the first
			t.Fatal(err)
		}
	}
	return dir
}

// dropUnused removes the directories that match a pattern and were not used for days. It ignores
// errors.
func dropUnused(pattern string) {
	found, _ := filepath.Glob(pattern) // Glob fails only for malformed patterns, and the patterns are constant
	for _, dir := range found {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > keptFor {
			_ = os.RemoveAll(dir)
		}
	}
}

// unlessProven runs a check, unless the check has succeeded with the same inputs on this machine.
// The inputs must contain everything on which the outcome depends, so no check may use the service.
// Without -short, the check always runs.
func unlessProven(t *testing.T, name string, in *inputs, check func()) {
	t.Helper()
	if !testing.Short() {
		check()
		return
	}
	ran := false
	dir := cached(t, name, in, func(string) { ran = true; check() })
	if !ran {
		t.Logf("not repeated: the check succeeded with the same inputs; to repeat it, remove %s", dir)
	}
}

// TestCached checks that a directory in the cache is filled once for the same inputs, and that a
// changed input fills another directory.
func TestCached(t *testing.T) { // it sets the environment, so it is not parallel
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	filled := 0
	fill := func(draft string) {
		filled++
		save(t, draft, "number", fmt.Sprint(filled))
	}

	for n, c := range []struct {
		in   *inputs
		want string
	}{
		{of("a", "b"), "1"}, {of("a", "b"), "1"}, {of("ab"), "2"}, {of("a").and("b"), "1"}, {of("a", "b").files(t, "go.work"), "3"},
	} {
		raw, err := os.ReadFile(filepath.Join(cached(t, "test", c.in, fill), "number"))
		if err != nil || string(raw) != c.want {
			t.Errorf("call %d: %q, %v; want %s", n, raw, err, c.want)
		}
	}

	old := time.Now().Add(-2 * keptFor)
	dir := cached(t, "test", of("ab"), fill)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	cached(t, "test", of("another"), fill)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the unused directory still exists: %v", err)
	}
	if filled != 4 {
		t.Errorf("filled %d directories, want 4", filled)
	}
}

// TestInputs checks that the hash of a directory depends on the contents and the names of its
// files.
func TestInputs(t *testing.T) {
	t.Parallel()
	below, err := filepath.Rel(testkit.Root(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(testkit.Root(t), below)
	seen := map[string]bool{}
	for _, file := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}, {"node_modules/c", "z"}} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file[0])), 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, dir, file[0], file[1])
		seen[hex.EncodeToString(of().files(t, below).sum.Sum(nil))] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d different hashes, want 3", len(seen))
	}
}
