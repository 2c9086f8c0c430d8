package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Lock is a held lock file. The kernel releases it when the last process that has the file open
// ends, even by a crash.
type Lock struct{ file *os.File }

// LockFile locks the file at path without waiting and writes this process's id into the file. If
// another process holds the lock, LockFile returns a LockedError with the id of that process.
func LockFile(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}

	// LOCK_NB makes flock fail immediately if another process holds the lock.
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = describe(file, path, err)
		file.Close()
		return nil, err
	}

	// The content of the file, a process id, is only information for people; the kernel keeps the
	// lock.
	if err := file.Truncate(0); err != nil {
		file.Close()
		return nil, fmt.Errorf("emptying lock: %w", err)
	}

	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		file.Close()
		return nil, fmt.Errorf("writing lock: %w", err)
	}

	return &Lock{file: file}, nil
}

// flock calls flock(2). It repeats the call if a signal interrupts it.
func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// describe adds to an error the lock file's path and, if known, the id of the process that holds
// the lock.
func describe(file *os.File, path string, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("locking %s: %w", path, err)
	}

	// The process that holds the lock may not have written its id yet.
	owner, readErr := io.ReadAll(io.LimitReader(file, 32))
	if readErr != nil {
		return &LockedError{Path: path}
	}
	return &LockedError{Path: path, ProcessID: strings.TrimSpace(string(owner))}
}

// File returns the open lock file. A child process that inherits the file also holds the lock, and
// keeps it after Leave.
func (l *Lock) File() *os.File { return l.file }

// Leave closes the lock file. If other processes have inherited the file, the lock is held until
// they have ended.
func (l *Lock) Leave() error { return l.file.Close() }

// Unlock releases the lock, even if other processes have inherited it. It does not remove the file,
// because two processes could then lock two files with the same name.
func (l *Lock) Unlock() error {
	// Closing the file would not be enough to release the lock: a child that is being started has a
	// copy of the open file until it executes its program.
	if err := flock(l.file, syscall.LOCK_UN); err != nil && !errors.Is(err, syscall.EBADF) {
		return errors.Join(fmt.Errorf("unlocking: %w", err), l.file.Close())
	}
	return l.file.Close()
}
