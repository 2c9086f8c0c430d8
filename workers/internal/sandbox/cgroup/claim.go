package cgroup

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// mainName is the name of the cgroup that contains Parley's own processes in version 2. This cgroup
// is never removed.
const mainName = "parley-main"

// claimed matches the names of the folders that processes create for their Roots.
var claimed = regexp.MustCompile(`^parley-\d+-[0-9a-f]{16}$`)

// claim creates a folder for this process's groups below parent and locks it. The kernel releases
// the lock when the process ends, even after a crash. The errors are sentences for the operator.
func claim(parent string) (dir string, lock *os.File, err error) {
	for range 3 { // try repeatedly, because another process may remove the folder before it is locked
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		dir = filepath.Join(parent, "parley-"+strconv.Itoa(os.Getpid())+"-"+hex.EncodeToString(random[:]))
		if err = os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // G301: the kernel's own mode of cgroups
			return "", nil, fmt.Errorf("creating a cgroup in %s: %w", parent, reason(err))
		}
		if lock, err = lockFolder(dir); err == nil || !errors.Is(err, errTaken) {
			return dir, lock, err
		}
	}
	return "", nil, fmt.Errorf("creating a cgroup in %s: it disappeared immediately", parent)
}

// errTaken means that another process holds the lock, or that the folder was removed.
var errTaken = errors.New("the folder belongs to another process")

// lockFolder locks a folder. It returns errTaken if another process holds the lock or if the folder
// is not there any more. lockFolder never waits. Closing the file releases the lock.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, fmt.Errorf("opening cgroup: %w", err)
	}

	// Before this lock was taken, another process may have removed the folder as unused, and a
	// third process may have created a folder of the same name. So the locked file must still be
	// the file at this path.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		mine, mineErr := f.Stat()
		there, thereErr := os.Stat(dir)
		if mineErr == nil && thereErr == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	_ = f.Close() // no data can be lost
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errTaken
	}
	return nil, fmt.Errorf("locking cgroup: %w", err)
}

// clean removes the folders of processes that have ended, after killing the processes in them. A
// folder that cannot be removed now is removed by a later call.
func clean(parent string) {
	names, _ := folders(parent) // an unreadable folder cannot be cleaned
	for _, name := range names {
		if !claimed.MatchString(name) {
			continue
		}

		// A free lock means that the owner has died. Processes in its groups may still be alive.
		dir := filepath.Join(parent, name)
		lock, err := lockFolder(dir)
		if err != nil {
			continue
		}
		if end(dir) == nil {
			_ = removeTree(dir)
		}
		_ = lock.Close() // no data can be lost
	}
}

// removeTree removes a cgroup and all cgroups below it, none of which may contain processes.
func removeTree(dir string) error {
	names, err := folders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, removeTree(filepath.Join(dir, name)))
	}
	// The kernel may no longer list a dying process, although the process still keeps the cgroup
	// busy.
	if gone := retry(func() error { return syscall.Rmdir(dir) }); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("removing cgroup %s: %w", dir, gone))
	}
	return err
}

// reason replaces two common errors with an explanation. It returns any other error unchanged.
func reason(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return errors.New("mounted read-only, as in unprivileged containers")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("permission denied for this process's user")
	default:
		return err
	}
}
