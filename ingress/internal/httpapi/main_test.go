package httpapi

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"parley/ingress/internal/openapi/openapitest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // reduces the work of the garbage collector: the heap is small, and there are hundreds of thousands of requests
	if underRace {
		fmt.Fprintln(os.Stderr, "a part of the access matrix is left out under the race detector: whether every documented answer was seen is not checked")
		os.Exit(m.Run())
	}
	os.Exit(openapitest.Main(m, "httpapi"))
}
