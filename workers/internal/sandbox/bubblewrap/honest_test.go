//go:build linux

package bubblewrap

import (
	_ "embed"
	"strings"
	"testing"

	"parley/workers/internal/sandbox"
)

//go:embed testdata/honest.py
var honest []byte

func TestHonestProgramsRun(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		x := start(t, b, sandbox.Command{
			Args: []string{python3, "-I", "/parley/honest.py"},
			Env:  []string{"PATH=/usr/bin", "HOME=/work", "XDG_CACHE_HOME=/tmp", "OPENBLAS_NUM_THREADS=1"},
			Data: []sandbox.Data{{Path: "/parley/honest.py", Content: honest}},
		})
		_ = x.Stdin().Close() // no data can be lost
		text := said(t, x)
		for _, part := range []string{"files", "processes", "threads", "multiprocessing", "asyncio", "time", "library", "numpy", "pandas", "matplotlib"} {
			if !strings.Contains(text, part+"\n") && !strings.Contains(text, part+" absent\n") {
				t.Errorf("%s does not work", part)
			}
		}
		if t.Failed() {
			t.Logf("%s\n%s", text, x.Stderr())
		}
	})
}
