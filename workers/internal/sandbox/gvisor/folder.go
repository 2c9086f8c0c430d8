package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Prefixes of the names of folders. prefix is for folders that are or were in use, freshPrefix for
// folders that are empty and not locked yet.
const (
	prefix      = "parley-gvisor-"
	freshPrefix = "parley-new-gvisor-"
)

// folder is a folder that contains the files of all sandboxes of a backend. The backend holds a
// file lock on it, which the kernel releases when the process ends, even after a crash. Files of a
// crashed worker are therefore recognized by the missing lock.
type folder struct {
	path string
	lock *os.File
}

// newFolder creates and locks a folder below parent. It also removes the folders of processes that
// have ended.
func newFolder(parent string) (*folder, error) {
	sweep(parent)
	fresh, err := os.MkdirTemp(parent, freshPrefix)
	if err != nil {
		return nil, fmt.Errorf("creating a folder for sandboxes: %w", err)
	}

	// sweep in another worker removes unlocked folders whose names begin with prefix. So the folder
	// gets such a name only after it is locked.
	lock, err := lockFolder(fresh)
	path := filepath.Join(parent, prefix+strings.TrimPrefix(filepath.Base(fresh), freshPrefix))
	if err == nil {
		err = os.Rename(fresh, path) // sweep looks for this name, so the folder is locked first
	}
	if err != nil {
		_ = os.Remove(fresh)
		return nil, fmt.Errorf("creating a folder for sandboxes: %w", err)
	}
	return &folder{path: path, lock: lock}, nil
}

// lockFolder locks a folder. It returns an error if another process holds the lock, or if the path
// is a link. lockFolder never waits. Closing the file releases the lock.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // no data can be lost
		return nil, err
	}
	return f, nil
}

// sweep removes this user's folders that are not locked. The sandboxes in such a folder ended
// together with the worker that owned it.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well-formed
	for _, path := range left {
		is, err := os.Lstat(path)
		if err != nil {
			continue
		}

		// The parent is often /tmp, where other users may create folders with any name. Only this
		// user's folders are removed.
		if stat, ok := is.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path) // a later sweep removes what remains
		_ = lock.Close()       // no data can be lost
	}
}

// remove deletes the folder with its contents and releases the lock. It may be called more than
// once.
func (f *folder) remove() error {
	if f == nil || f.lock == nil {
		return nil
	}
	err := os.RemoveAll(f.path)
	_ = f.lock.Close() // no data can be lost
	f.lock = nil
	if err != nil {
		return fmt.Errorf("removing the files of sandboxes: %w", err)
	}
	return nil
}
