package cputime

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// threadClock is CLOCK_THREAD_CPUTIME_ID of clock_gettime(2). getrusage(2) would be less exact: its
// resolution is the kernel's tick.
const threadClock = 3

// thread returns the processor time that the current thread has used.
func thread() time.Duration {
	var used syscall.Timespec
	//nolint:gosec // package syscall has no function for this system call
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&used)), 0); errno != 0 {
		panic(fmt.Sprintf("reading the processor time of the thread: %v", errno)) // fails only for invalid arguments
	}
	return time.Duration(used.Nano())
}
