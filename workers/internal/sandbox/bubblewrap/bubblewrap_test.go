//go:build linux

package bubblewrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/cgroup"
	"parley/workers/internal/sandbox/sandboxtest"
)

const python3 = "/usr/bin/python3"

func testLimits() sandbox.Limits {
	return sandbox.Limits{
		CPU: 10 * time.Second, Wall: 30 * time.Second, Memory: 512 << 20,
		Processes: 64, Files: 64 << 20, FileCount: 10_000, Output: 1 << 20,
	}
}

// eachWay runs a test twice: with cgroups, if they are available, and without cgroups.
func eachWay(t *testing.T, test func(*testing.T, *Backend)) {
	t.Helper()
	t.Run("counted", func(t *testing.T) {
		t.Parallel()
		test(t, opened(t, nil, errors.New("the test wants none")))
	})
	groups, err := cgroup.Open()
	if err != nil {
		t.Logf("not tried with cgroups: %v", err)
		return
	}
	t.Run("cgroups", func(t *testing.T) {
		t.Parallel()
		test(t, opened(t, groups, nil))
	})
}

func opened(tb testing.TB, groups *cgroup.Root, whyNot error) *Backend {
	tb.Helper()
	b, err := open(Config{}, groups, whyNot)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error("closing:", err)
		}
	})
	return b
}

func start(tb testing.TB, b *Backend, c sandbox.Command) *box {
	tb.Helper()
	if c.Limits == (sandbox.Limits{}) {
		c.Limits = testLimits()
	}
	x, err := b.start(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(x.Kill)
	return x
}

// code returns a command that runs Python code.
func code(text string, args ...string) sandbox.Command {
	return sandbox.Command{Args: append([]string{python3, "-I", "-S", "-c", text}, args...)}
}

// said returns the complete output of a sandbox. The test fails if the sandbox does not end in
// time.
func said(tb testing.TB, x *box) string {
	tb.Helper()
	late := time.AfterFunc(time.Minute, x.Kill)
	text, err := io.ReadAll(x.Stdout())
	if err != nil {
		tb.Error("reading output:", err)
	}
	<-x.Done()
	if !late.Stop() {
		tb.Error("the sandbox did not end within a minute")
	}
	return string(text)
}

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) != "" {
		beWorker()
		return
	}
	release, err := sandboxtest.Alone()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	release()
	os.Exit(code)
}
