package extract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The prefixes of the names of folders: prefix for locked folders, and freshPrefix for folders that
// are not locked yet.
const (
	prefix      = "parley-reader-"
	freshPrefix = "parley-new-reader-"
)

// folder is a folder that contains a copy of this process's executable. This process holds a file
// lock on the folder. The kernel releases the lock when the process ends, even after a crash.
type folder struct {
	path string
	lock *os.File
}

// program returns the path of the copied executable.
func (f *folder) program() string { return filepath.Join(f.path, "program") }

// newFolder creates a folder that all users can enter, on a file system that permits executing
// programs. It also removes the folders of processes that have ended.
func newFolder() (*folder, error) {
	why := errors.New("found no folder to which the program can be copied")
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/run"} {
		// Some machines mount some of these parent folders without permission to execute programs.
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

// newFolderIn creates a folder in parent. The folder gets its final name after it is locked, so
// that sweep never finds a folder that is in use but not locked.
func newFolderIn(parent string) (*folder, error) {
	// sweep ignores folders with this prefix, so no other process removes the folder before it is
	// locked.
	fresh, err := os.MkdirTemp(parent, freshPrefix)
	// If a later step fails, the folder is removed in this function, because sweep does not look
	// for fresh folders.
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

// sweep removes the folders in parent that belong to this user and that no process has locked.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // only an invalid pattern causes an error
	for _, path := range left {
		// Do not follow links, because another user may have created a symbolic link with the name
		// of a folder.
		lock, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		var is unix.Stat_t

		// If the folder can be locked, the process that created it has ended.
		if unix.Fstat(int(lock.Fd()), &is) == nil && int(is.Uid) == os.Geteuid() && unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path) // a later sweep removes what remains
		}
		_ = lock.Close() // ignore the error: the folder was opened only for reading, so no data can be lost
	}
}

// remove deletes the folder and then releases the lock.
func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.lock.Close())
}
