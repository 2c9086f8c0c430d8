package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Alone waits until no other suite of a backend runs on this machine, and keeps others waiting until the process ends: side by side
// their fork bombs leave each other no time.
func Alone() error {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("parley-test-sandboxes-%d", os.Getuid()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("taking lock: %w", err)
	}
	alone = file
	return nil
}

var alone *os.File // holds the lock
