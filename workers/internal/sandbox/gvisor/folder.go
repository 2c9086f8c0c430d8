package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// prefix begins the names of folders that are in use or were; freshPrefix those that are not locked yet, and hold nothing.
const (
	prefix      = "parley-gvisor-"
	freshPrefix = "parley-new-gvisor-"
)

// folder is where all sandboxes of a backend keep what they keep on the host. It is locked as long as its owner lives, however that
// ends: the lock goes with the process.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder, and removes those whose owners are dead.
func newFolder(parent string) (*folder, error) {
	sweep(parent)
	fresh, err := os.MkdirTemp(parent, freshPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	lock, err := lockFolder(fresh)
	path := filepath.Join(parent, prefix+strings.TrimPrefix(filepath.Base(fresh), freshPrefix))
	if err == nil {
		err = os.Rename(fresh, path) // locked before it has the name that sweep looks for
	}
	if err != nil {
		_ = os.Remove(fresh)
		return nil, fmt.Errorf("making a folder for sandboxes: %w", err)
	}
	return &folder{path: path, lock: lock}, nil
}

func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // of a folder
		return nil, err
	}
	return f, nil
}

// sweep removes folders of this user that nobody has locked. Their sandboxes are dead: they die with their worker.
func sweep(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well-formed
	for _, path := range left {
		is, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if stat, ok := is.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		lock, err := lockFolder(path)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path) // what cannot be removed now is there the next time
		_ = lock.Close()       // of a folder
	}
}

// remove removes it with all that is in it. It may be called again.
func (f *folder) remove() error {
	if f == nil || f.lock == nil {
		return nil
	}
	err := os.RemoveAll(f.path)
	_ = f.lock.Close() // of a folder
	f.lock = nil
	if err != nil {
		return fmt.Errorf("removing what sandboxes kept: %w", err)
	}
	return nil
}
