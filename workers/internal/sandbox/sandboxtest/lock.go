package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Alone waits until no other backend's suite runs on this machine. It then blocks other suites
// until release is called. If suites ran simultaneously, the fork bombs of one suite would delay
// the other suite.
func Alone() (release func(), err error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("parley-test-sandboxes-%d", os.Getuid()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("taking lock: %w", err)
	}
	return func() { _ = file.Close() }, nil // closing releases the lock
}
