package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// mount mounts a file system until the test ends. args are the arguments of the command mount,
// without the directory.
func mount(tb testing.TB, kind string, args ...string) (*Disk, error) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "parley-disk-") //nolint:usetesting // it is unmounted before it is removed
	if err != nil {
		return nil, err
	}

	if out, err := exec.CommandContext(tb.Context(), "mount", append(args, dir)...).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("mounting: %w: %s", err, out), os.Remove(dir))
	}

	tb.Cleanup(func() {
		// The unmount is lazy, because a process that is ending may still have a file open.
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			tb.Errorf("unmounting %s: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // G302: PostgreSQL runs as another user
		return nil, err
	}

	return &Disk{Dir: dir, Kind: kind}, nil
}
