package extract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix begins the names of locked folders; freshPrefix begins the names of folders that are not
// locked yet.
const (
	prefix      = "parley-reader-"
	freshPrefix = "parley-new-reader-"
)

// folder contains a copy of this process's executable. Its owner holds a file lock on the folder.
// The lock ends with the process, even after a crash.
type folder struct {
	path string
	lock *os.File
}

// program returns the path of the copied executable.
func (f *folder) program() string { return filepath.Join(f.path, "program") }

// newFolder creates a folder that all users can enter, on a file system that allows programs to
// run. It also removes the folders of processes that no longer run.
func newFolder() (*folder, error) {
	why := errors.New("no folder to which the program can be copied")
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/run"} {
		// Machines mount some of these folders without permission to run programs.
		var fs unix.Statfs_t
		if unix.Statfs(parent, &fs) != nil || fs.Flags&unix.ST_NOEXEC != 0 || !reachable(parent) {
			continue
		}
		sweep(parent)
		f, err := newFolderIn(parent)
		if err == nil {
			return f, nil
		}
		why = err
	}
	return nil, why
}

// newFolderIn creates a folder in parent. It renames the folder after locking it, so that sweep
// never finds a folder that is in use but not locked.
func newFolderIn(parent string) (*folder, error) {
	// The fresh name does not match the pattern of sweep, so another process cannot remove the
	// folder.
	fresh, err := os.MkdirTemp(parent, freshPrefix)
	// On failure nothing must remain, because no sweep looks for fresh folders.
	if err != nil {
		return nil, fmt.Errorf("creating a folder for this program's executable: %w", err)
	}

	f := &folder{path: filepath.Join(parent, prefix+strings.TrimPrefix(filepath.Base(fresh), freshPrefix))}
	f.lock, err = os.Open(fresh)
	if err == nil {
		err = unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Chmod(fresh, 0o755) //nolint:gosec // G302: the sandbox's user must read the executable, which is not secret
	}
	if err == nil {
		err = os.Rename(fresh, f.path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a folder for this program's executable: %w", err), os.RemoveAll(fresh), f.lock.Close())
	}
	return f, nil
}

// sweep removes this user's folders in parent whose owners no longer hold the lock.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // only an invalid pattern causes an error
	for _, path := range left {
		// Another user may have put a symbolic link there, so links are not followed.
		lock, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		var is unix.Stat_t

		// If the lock can be taken, the process that created the folder has ended.
		if unix.Fstat(int(lock.Fd()), &is) == nil && int(is.Uid) == os.Geteuid() && unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path) // the next sweep removes what remains
		}
		_ = lock.Close() // the folder was opened only for reading, so nothing is lost
	}
}

// remove deletes the folder and then releases its lock.
func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}
