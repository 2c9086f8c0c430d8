package pdf

import (
	"math"
	"sync"
	"syscall"
	"time"
)

// startMutex serializes the starts of programs, because startWithinLimit changes this process's
// limit.
var startMutex sync.Mutex

// startWithinLimit starts a program that may use the processor time that remains within this
// process's limit. The kernel applies the limit to each process separately. The program inherits
// this process's soft limit, so startWithinLimit lowers the soft limit during the start. If this
// process reaches the lowered limit during the start, nothing happens, because Go ignores SIGXCPU.
func startWithinLimit(start func() error) error {
	startMutex.Lock()
	defer startMutex.Unlock()
	var own syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CPU, &own) != nil || own.Cur > math.MaxInt32 { // there is no limit
		return start()
	}

	left := time.Duration(own.Cur)*time.Second - cpuTime()
	if left < time.Second {
		return errCPU
	}

	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: uint64(left / time.Second), Max: own.Max}); err != nil {
		return err
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_CPU, &own) }() // cannot fail, because the same limit was set before
	return start()
}

// cpuTime returns the processor time used by this process and its finished children.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
