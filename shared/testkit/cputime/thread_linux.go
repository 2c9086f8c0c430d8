package cputime

import (
	"fmt"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of getrusage(2), which package syscall does not define.
const rusageThread = 1

// thread returns the processor time that the current thread has used.
func thread() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &used); err != nil {
		panic(fmt.Sprintf("reading the processor time of the thread: %v", err)) // fails only for invalid arguments
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
