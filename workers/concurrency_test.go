package workers

import "testing"

// With the default concurrency, the runs of a lane fit into a quarter of the machine's memory.
func TestDefaultConcurrencyFitsIntoMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cores  int // number of runs that the cores allow
		memory uint64
		want   int
	}{
		"a large machine":           {5000, 24 << 30, 5000},
		"a container of 1 GiB":      {5000, 1 << 30, 2048},
		"a container of 64 MiB":     {5000, 64 << 20, 128},
		"hardly any memory":         {5000, 1 << 20, minRuns},
		"fewer than minRuns wanted": {10, 1 << 20, 10},
	} {
		if got := concurrencyFor(c.cores, c.memory); got != c.want {
			t.Errorf("%s: concurrencyFor(%d, %d) = %d, want %d", name, c.cores, c.memory, got, c.want)
		}
	}
}
