package python

import (
	"os"
	"sync"
	"testing"
	"time"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/bubblewrap"
)

var testLimits = sandbox.Limits{
	CPU: 10 * time.Second, Wall: 20 * time.Second, Memory: 512 << 20, Processes: 64, Files: 32 << 20, FileCount: 5000, Output: 1 << 20,
}

// newReal returns the backend that the service uses.
func newReal(tb testing.TB) sandbox.Backend {
	tb.Helper()
	b, err := bubblewrap.Open(bubblewrap.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() })
	return b
}

type shared struct {
	backend     sandbox.Backend
	interpreter *Interpreter
	err         error
}

// one is an interpreter for all tests that only run programs.
var one = sync.OnceValue(func() (s shared) {
	if s.backend, s.err = bubblewrap.Open(bubblewrap.Config{}); s.err != nil {
		return s
	}
	s.interpreter, s.err = Open(s.backend, Config{Limits: testLimits, Warm: 1})
	return s
})

func TestMain(m *testing.M) {
	code := m.Run()
	if s := one(); s.err == nil {
		_ = s.interpreter.Close()
		_ = s.backend.Close()
	}
	os.Exit(code)
}

// run runs a program. The test fails if the program cannot be run.
func run(tb testing.TB, p Program) Outcome {
	tb.Helper()
	s := one()
	if s.err != nil {
		tb.Fatal(s.err)
	}
	o, err := s.interpreter.Run(tb.Context(), p)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}
