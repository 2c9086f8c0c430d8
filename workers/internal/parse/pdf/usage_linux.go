package pdf

import (
	"math"
	"sync"
	"syscall"
	"time"
)

// startMutex serializes starts of programs, because startWithinLimit temporarily changes the limit
// of this process.
var startMutex sync.Mutex

// startWithinLimit starts a program that may use the processor time that is left to this process.
// It returns errCPU if less than a second is left.
//
// The kernel applies the limit to each process separately, and a program inherits the soft limit of
// the process that starts it. So the soft limit is lowered during the start. If this process
// reaches the lowered limit in the meantime, it continues, because Go ignores SIGXCPU.
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

// cpuTime returns the processor time used by this process and by its children that have ended.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
