package gvisor

import (
	"fmt"
	"os"
	"testing"

	"parley/workers/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	release, err := sandboxtest.Alone()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	release()
	os.Exit(code)
}
