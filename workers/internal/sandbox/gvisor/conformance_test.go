//go:build linux

package gvisor

import (
	"testing"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) { //nolint:paralleltest // it sets the environment
	testkit.Long(t)
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the suite examines other programs, without the detector; it runs in normal tests")
	}
	needRunsc(t)
	sandboxtest.Conformance(t, func(tb testing.TB) sandbox.Backend {
		tb.Helper()
		b, err := Open(Config{})
		if err != nil {
			tb.Fatalf("opening the backend: %v", err)
		}
		return b
	})
}
