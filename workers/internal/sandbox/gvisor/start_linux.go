package gvisor

import (
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes are those of a sandbox's first process: it dies with the worker's thread, and what a terminal sends to the worker is
// not for it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}

// keepDescriptors has none of this process's descriptors go on to a child. Go's own never do; those that this process was started
// with may.
func keepDescriptors() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("keeping descriptors from sandboxes: %w", err)
	}
	return nil
}
