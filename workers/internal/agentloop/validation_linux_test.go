package agentloop

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// percentile returns the given percentile of durations.
func percentile(took []time.Duration, of int) time.Duration {
	took = slices.Sorted(slices.Values(took))
	return took[(len(took)-1)*of/100]
}

// threadTime returns the processor time of the current thread.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// BenchmarkValidation measures how much a schema adds to the duration of a run whose answer has 10
// KiB. The heap is as large as a worker's heap, so that garbage is collected as often as in a
// worker. Besides the duration, the benchmark reports the processor time, which contains the
// validation's share of the garbage collection, but not the time in which other processes use the
// processor.
func BenchmarkValidation(b *testing.B) {
	heap := make([]byte, 64<<20)
	defer runtime.KeepAlive(heap)
	for _, s := range answerShapes {
		for _, cites := range []bool{false, true} {
			b.Run(s.name+map[bool]string{true: "/cited"}[cites], func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				v := newValidation(b, s, cites)
				var took, worked []time.Duration
				for b.Loop() {
					began := threadTime(b)
					took = append(took, v.run(b))
					worked = append(worked, threadTime(b)-began)
				}
				for name, all := range map[string][]time.Duration{"": took, "cpu-": worked} {
					b.ReportMetric(float64(percentile(all, 50).Microseconds()), name+"p50-µs")
					b.ReportMetric(float64(percentile(all, 99).Microseconds()), name+"p99-µs")
				}
			})
		}
	}
}
