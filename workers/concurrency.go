package workers

import (
	"runtime"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Defaults of concurrency.
const (
	// Runs mostly wait for models, so a core can serve many of them.
	runsPerCore  = 2500
	callsPerCore = 32

	// A run that waits for its model occupies memory, not a core. It takes up to runMemory. The runs of
	// a lane may take a quarter of the memory.
	runMemory  = 128 << 10
	memoryPart = 4
	minRuns    = 64
)

// defaultConcurrency returns the default number of runs that a worker executes in each lane: some
// per core, but only as many as fit into the memory of the machine or container.
func defaultConcurrency() int {
	n := runsPerCore * runtime.GOMAXPROCS(0)
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil { // unknown, so the cores decide
		return n
	}
	return concurrencyFor(n, memory)
}

// concurrencyFor returns n, or the smaller number of runs that fit into memory bytes.
func concurrencyFor(n int, memory uint64) int {
	fitting := memory / memoryPart / runMemory
	if fitting >= uint64(n) {
		return n
	}
	return max(int(fitting), min(n, minRuns))
}
