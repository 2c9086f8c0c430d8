package httpapi

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"parley/ingress/internal/openapi/openapitest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heap is small, and hundreds of thousands of requests produce a lot of garbage
	if underRace {
		fmt.Fprintln(os.Stderr, "a part of the access matrix is left out under the race detector: whether every documented answer was seen is not checked")
		os.Exit(m.Run())
	}
	os.Exit(openapitest.Main(m, "httpapi"))
}
