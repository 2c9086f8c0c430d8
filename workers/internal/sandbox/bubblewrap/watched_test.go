//go:build linux

package bubblewrap

import (
	"errors"
	"testing"

	"parley/workers/internal/sandbox/sandboxtest"
)

// TestWatched runs the part of the conformance suite that differs without cgroups.
func TestWatched(t *testing.T) { //nolint:paralleltest // it needs all processors
	sandboxtest.Watched(t, opened(t, nil, errors.New("the test wants none")))
}
