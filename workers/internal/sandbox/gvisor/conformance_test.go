//go:build linux

package gvisor_test

import (
	"os"
	"os/exec"
	"testing"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/gvisor"
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
		b, err := gvisor.Open(gvisor.Config{})
		if err != nil {
			tb.Fatalf("opening the backend: %v", err)
		}
		return b
	})
}

// needRunsc skips a test if gVisor is not installed.
func needRunsc(t *testing.T) {
	t.Helper()
	path := os.Getenv("RUNSC")
	if path == "" {
		path = "runsc"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Skipf("NOT TESTED: sandboxes in gVisor: there is no %s on this machine (install the package runsc, or set RUNSC)", path)
	}
}
