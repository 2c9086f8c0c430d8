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

// mainName is the cgroup that processes of Parley live in on version 2; it is nobody's to remove.
const mainName = "parley-main"

// claimed is how the folders of Roots are called.
var claimed = regexp.MustCompile(`^parley-\d+-[0-9a-f]{16}$`)

// claim makes a folder for this process's groups, and locks it: the lock is gone with the process, however that ends.
func claim(parent string) (dir string, lock *os.File, err error) {
	for range 3 { // somebody who looks for leftovers may take it between its making and its locking
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		dir = filepath.Join(parent, "parley-"+strconv.Itoa(os.Getpid())+"-"+hex.EncodeToString(random[:]))
		if err = os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // G301: the kernel's own mode of cgroups
			return "", nil, fmt.Errorf("making a cgroup in %s: %w", parent, reason(err))
		}
		if lock, err = lockFolder(dir); err == nil || !errors.Is(err, errTaken) {
			return dir, lock, err
		}
	}
	return "", nil, fmt.Errorf("creating a cgroup in %s: it disappears immediately", parent)
}

// errTaken is that somebody else has the lock, or that the folder is gone.
var errTaken = errors.New("it belongs to another user")

// lockFolder takes the lock of a folder.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, fmt.Errorf("opening cgroup: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		mine, mineErr := f.Stat()
		there, thereErr := os.Stat(dir)
		if mineErr == nil && thereErr == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	_ = f.Close() // of a folder
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errTaken
	}
	return nil, fmt.Errorf("locking cgroup: %w", err)
}

// clean removes what processes that died have left. What cannot be removed is left to the next.
func clean(parent string) {
	names, _ := folders(parent) // what cannot be listed cannot be cleaned
	for _, name := range names {
		if !claimed.MatchString(name) {
			continue
		}
		dir := filepath.Join(parent, name)
		lock, err := lockFolder(dir)
		if err != nil {
			continue
		}
		if end(dir) == nil {
			_ = removeTree(dir)
		}
		_ = lock.Close() // of a folder
	}
}

// removeTree removes a cgroup without processes, and all below it.
func removeTree(dir string) error {
	names, err := folders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		err = errors.Join(err, removeTree(filepath.Join(dir, name)))
	}
	// The last of the dying are in no list any more, and in the way all the same.
	if gone := again(func() error { return syscall.Rmdir(dir) }); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("removing cgroup %s: %w", dir, gone))
	}
	return err
}

// reason says in words what the usual refusals are.
func reason(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return errors.New("it is mounted read-only, as in unprivileged containers")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("permission denied for this process's user")
	default:
		return err
	}
}
