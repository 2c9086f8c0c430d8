//go:build linux

package extract

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPDF reads a PDF: the file named by the environment variable PDF, or 36 generated pages.
// It also runs pdftotext alone, with and without the option -tsv. It reports the durations and
// processor times in milliseconds, and the ratio of Parley's duration to that of pdftotext.
func BenchmarkPDF(b *testing.B) {
	content := manyPages(36)
	path := os.Getenv("PDF")
	if path == "" {
		path = filepath.Join(b.TempDir(), "document.pdf")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
	} else {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			b.Fatal(err)
		}
	}
	watched := &watchedBackend{Backend: mustShared(b)}
	e := opened(b, watched, Config{})
	var ours, plain, layout, first, oursCPU, plainCPU time.Duration
	for b.Loop() {
		began := cpu()
		d, err := read(b.Context(), e, content, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		ours += d.took
		first += d.first
		usage, err := watched.last.Usage()
		if err != nil {
			b.Fatal(err)
		}
		oursCPU += cpu() - began + usage.CPU
		began = cpu()
		plain += alone(b, path)
		plainCPU += cpu() - began
		layout += alone(b, "-tsv", path)
	}
	n := float64(b.N)
	b.ReportMetric(float64(ours.Milliseconds())/n, "ours-ms")
	b.ReportMetric(float64(first.Milliseconds())/n, "first-ms")
	b.ReportMetric(float64(plain.Milliseconds())/n, "pdftotext-ms")
	b.ReportMetric(float64(layout.Milliseconds())/n, "tsv-ms")
	b.ReportMetric(ours.Seconds()/plain.Seconds(), "ratio")
	b.ReportMetric(float64(oursCPU.Milliseconds())/n, "ours-cpu-ms")
	b.ReportMetric(float64(plainCPU.Milliseconds())/n, "pdftotext-cpu-ms")
}

// cpu returns the processor time that this process and its finished children have used. Unlike
// elapsed time, it does not depend on the load of the machine.
func cpu() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

func alone(b *testing.B, args ...string) time.Duration {
	b.Helper()
	began := time.Now()
	if _, err := exec.CommandContext(b.Context(), "pdftotext", append(args, "-")...).Output(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
