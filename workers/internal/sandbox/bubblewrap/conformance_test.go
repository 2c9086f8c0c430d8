//go:build linux

package bubblewrap_test

import (
	"testing"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) { //nolint:paralleltest // it looks at what all of this process has started
	sandboxtest.Conformance(t, func(t testing.TB) sandbox.Backend {
		t.Helper()
		b, err := bubblewrap.Open(bubblewrap.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
