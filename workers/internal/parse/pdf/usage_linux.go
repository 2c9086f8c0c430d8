package pdf

import (
	"math"
	"sync"
	"syscall"
	"time"
)

// rations is held while a program is started that has a limit of its own.
var rations sync.Mutex

// rationed starts a program that may take as much of the processors' time as this process has left of its own limit, after what it and
// the programs that have ended took: the kernel counts each process by itself, and all of them only where there are cgroups. Our soft
// limit is lowered meanwhile, for it is inherited, and nothing happens when it is reached: Go takes no notice of that signal.
func rationed(start func() error) error {
	rations.Lock()
	defer rations.Unlock()
	var own syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CPU, &own) != nil || own.Cur > math.MaxInt32 { // none
		return start()
	}
	left := time.Duration(own.Cur)*time.Second - cpuTime()
	if left < time.Second {
		return errCPU
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: uint64(left / time.Second), Max: own.Max}); err != nil {
		return err
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_CPU, &own) }() // it was just set: it can be set again
	return start()
}

// cpuTime is what this process has taken, and the programs that it started and that have ended.
func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
