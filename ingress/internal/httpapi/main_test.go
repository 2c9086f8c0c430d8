package httpapi

import (
	"fmt"
	"os"
	"testing"

	"parley/ingress/internal/openapi/openapitest"
)

func TestMain(m *testing.M) {
	if underRace {
		fmt.Fprintln(os.Stderr, "a part of the access matrix is left out under the race detector: whether every documented answer was seen is not checked")
		os.Exit(m.Run())
	}
	os.Exit(openapitest.Main(m, "httpapi"))
}
