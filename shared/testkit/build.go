package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

// buildWithin is the time limit for a build. It is long, because the first build on a machine
// compiles everything.
const buildWithin = 15 * time.Minute

// builds contains a builder for each program that this test process has used.
var builds sync.Map // builder by directory and package

// A builder returns the path of a program. The first call builds the program.
type builder func() (string, error)

// BuildBinary builds the Go main package in a directory, and returns the path of the program. The
// directory is absolute or relative to the root of the repository, for example
// "ingress/cmd/ingress". The program is built once, into a cache that all test processes share. The
// program has the race detector if the test process has it.
func BuildBinary(tb testing.TB, dir string) string {
	tb.Helper()
	return BuildTagged(tb, dir, "")
}

// BuildTagged is the variant of BuildBinary with a build tag, for programs that are not released.
// An empty tag means no tag.
func BuildTagged(tb testing.TB, dir, tag string) string {
	tb.Helper()
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(Root(tb), dir)
	}
	return build(tb, dir, ".", tag, Race)
}

// Root returns the root directory of the repository: the nearest directory that contains go.work,
// in or above the test's directory.
func Root(tb testing.TB) string {
	tb.Helper()
	root, err := repositoryRoot()
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	return root
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding repository: no parent directory of the test contains go.work")
		}
	}
}

func build(tb testing.TB, dir, pkg, tag string, race bool, env ...string) string { //nolint:unparam // race is true under the detector
	tb.Helper()
	var once builder = sync.OnceValues(func() (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), buildWithin)
		defer cancel()
		return compile(ctx, dir, pkg, tag, race, env)
	})

	known, _ := builds.LoadOrStore(dir+" "+pkg+" "+tag, once)
	once, _ = known.(builder)
	path, err := once()
	if err != nil {
		tb.Fatalf("testkit: building %s in %s: %v", pkg, dir, err)
	}

	return path
}

// compile writes the program into a directory derived from its inputs. go build skips programs that
// are up to date.
func compile(ctx context.Context, dir, pkg, tag string, race bool, env []string) (path string, err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}

	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %tb", dir, pkg, tag, race))
	target := filepath.Join(cache, hex.EncodeToString(key[:8]))
	if err := os.MkdirAll(target, 0o700); err != nil {
		return "", fmt.Errorf("creating cache: %w", err)
	}
	Used(target)

	lock, err := awaitLock(ctx, filepath.Join(target, "lock"))
	if err != nil {
		return "", err
	}

	defer func() { err = errors.Join(err, lock.Unlock()) }()
	path = filepath.Join(target, programName(dir, pkg))
	args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-tags=" + tag, "-o", path}
	if race {
		args = append(args, "-race")
	}

	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}

	return path, nil
}

// programName returns the name that go build gives to a program: the last element of the package
// path that is not a version.
func programName(dir, pkg string) string {
	if pkg == "." {
		return filepath.Base(dir)
	}
	if name := filepath.Base(pkg); len(name) > 2 {
		return name
	}
	return filepath.Base(filepath.Dir(pkg))
}

// awaitLock takes a file lock, and waits while another process holds it.
func awaitLock(ctx context.Context, path string) (*lifecycle.Lock, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		lock, err := lifecycle.LockFile(path)
		if !errors.Is(err, lifecycle.ErrLocked) {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for lock: %w: %w", context.Cause(ctx), err)
		}
	}
}
