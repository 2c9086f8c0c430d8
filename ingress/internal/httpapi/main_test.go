package httpapi

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"parley/ingress/internal/openapi/openapitest"
	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests. It exceeds the number of cores, because the
// tests mostly wait for the database and for timeouts. The flag -parallel overrides it.
const sideBySide = 6

// maxMemory is the memory above which the garbage collector ignores its percentage. Tests with
// large messages use up to 0.8 GB at a time. With the percentage alone, the heap would then grow to
// 4 GB.
const maxMemory = 1536 << 20

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	debug.SetGCPercent(400) // reduces the work of the garbage collector: the heap is small, and there are hundreds of thousands of requests
	debug.SetMemoryLimit(maxMemory)
	if underRace {
		fmt.Fprintln(os.Stderr, "a part of the access matrix is left out under the race detector: whether every documented answer was seen is not checked")
		os.Exit(m.Run())
	}
	os.Exit(openapitest.Main(m, "httpapi"))
}
