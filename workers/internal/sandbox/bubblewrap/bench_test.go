//go:build linux

package bubblewrap

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// BenchmarkStart measures the time from Start to a command's first output.
func BenchmarkStart(b *testing.B) {
	backend, err := Open(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = backend.Close() }() // an error is ignored, because only the start is measured
	c := code("print(1,flush=True)")
	c.Limits = testLimits()
	for b.Loop() {
		x, err := backend.Start(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		firstLine(b, x.Stdout())
		b.StopTimer()
		x.Kill()
		b.StartTimer()
	}
}

// BenchmarkBare measures the minimum for comparison: a command in bwrap without this package.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", python3, "-c", "print(1,flush=True)")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		firstLine(b, out)
		b.StopTimer()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func firstLine(b *testing.B, r io.Reader) {
	b.Helper()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "1\n" {
		b.Fatal(line, err)
	}
}
