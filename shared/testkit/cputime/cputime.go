// Package cputime measures the processor time of code. Unlike elapsed time, processor time hardly
// depends on the load of the machine. A test that bounds the duration of a computation should
// therefore bound its processor time.
//
// The package starts no process, so the results of tests that use it can be cached.
package cputime

import (
	"runtime"
	"time"
)

// Of calls f and returns the processor time that f used in its own goroutine. The time of other
// goroutines, including the garbage collector's, does not count. On systems other than Linux, Of
// returns the elapsed time.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := thread()
	f()
	return thread() - began
}

// Spend uses the given amount of processor time, even on a busy machine.
func Spend(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := thread()
	for used := time.Duration(0); used < d; {
		used = thread() - began
	}
}
