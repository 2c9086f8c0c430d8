package host

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// MayNamespace reports whether this process is root and may create namespaces. Containers often
// remove this right from root.
func MayNamespace() bool { return rootWith(unix.CAP_SYS_ADMIN) }

// MayChangeUser reports whether this process is root, may create namespaces and may start processes
// as any user.
func MayChangeUser() bool { return rootWith(unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SYS_ADMIN) }

// rootWith reports whether this process is root and has the given capabilities, whose numbers must
// be below 32.
func rootWith(capabilities ...int) bool {
	// Being root is not enough: container runtimes remove capabilities from root.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&header, &data[0]) != nil {
		return false
	}
	for _, c := range capabilities {
		if data[0].Effective&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// firstSealed is the first descriptor after those of standard input, output and error.
const firstSealed = 3

// SealDescriptors sets close-on-exec on all descriptors of this process, except standard input,
// output and error. Otherwise, sandboxes would inherit files that this process inherited or that a
// library opened without close-on-exec.
func SealDescriptors() error {
	// Kernels before 5.11 do not support CLOSE_RANGE_CLOEXEC, so CloseRange fails on them.
	if unix.CloseRange(firstSealed, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return sealEach()
}

// sealEach does the same as SealDescriptors on kernels before 5.11.
func sealEach() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= firstSealed {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
