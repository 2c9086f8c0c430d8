//go:build linux

package bubblewrap_test

import (
	"testing"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) { //nolint:paralleltest // it examines all processes that this process has started
	if testkit.Race {
		t.Skip("NOT TESTED under the race detector: the suite examines other programs, without the detector; it runs in normal tests")
	}
	sandboxtest.Conformance(t, func(tb testing.TB) sandbox.Backend {
		tb.Helper()
		b, err := bubblewrap.Open(bubblewrap.Config{})
		if err != nil {
			tb.Fatal(err)
		}
		return b
	})
}
