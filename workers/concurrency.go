package workers

import (
	"runtime"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Defaults for the number of runs.
const (
	// A run spends most of its time waiting for a model, so one core is enough for many runs.
	runsPerCore  = 2500
	callsPerCore = 32

	// While a run waits for its model, it needs memory but no core. runMemory is twice the memory of
	// a run that waits for its model. The runs of a lane may use a quarter of all memory.
	runMemory  = 128 << 10
	memoryPart = 4
	minRuns    = 64
)

// defaultConcurrency returns the default number of runs that a worker executes in each lane. It
// depends on the number of cores, and is limited by the memory of the machine or container. The
// setting WORKER_CONCURRENCY replaces it.
func defaultConcurrency() int {
	n := runsPerCore * runtime.GOMAXPROCS(0)
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil { // the size of the memory is unknown, so the number depends only on the cores
		return n
	}
	return concurrencyFor(n, memory)
}

// concurrencyFor returns the number of runs, at most n, that fit into the given memory in bytes. If
// fewer than minRuns fit, it returns minRuns or, if that is lower, n.
func concurrencyFor(n int, memory uint64) int {
	fitting := memory / memoryPart / runMemory
	if fitting >= uint64(n) {
		return n
	}
	return max(int(fitting), min(n, minRuns))
}
