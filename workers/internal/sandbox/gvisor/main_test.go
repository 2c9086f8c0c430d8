package gvisor

import (
	"fmt"
	"os"
	"testing"

	"parley/workers/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if err := sandboxtest.Alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
