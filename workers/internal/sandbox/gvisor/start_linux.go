package gvisor

import (
	"fmt"
	"math"
	"os"
	"strconv"
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
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // kernels before 5.11
	if err != nil {
		return fmt.Errorf("listing descriptors: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// mayNamespace reports whether this process is root and may make namespaces: containers take that right from root.
func mayNamespace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
