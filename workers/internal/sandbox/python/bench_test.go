package python

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkRun measures a program that prints a text. It compares the time with the minimum: the
// time that bubblewrap and the interpreter take without this package. It reports medians in
// milliseconds. Each round includes all variants, so that they run under the same load.
func BenchmarkRun(b *testing.B) {
	warm, err := Open(newReal(b), Config{Limits: testLimits, Warm: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer warm.Close()
	cold, err := Open(newReal(b), Config{Limits: testLimits})
	if err != nil {
		b.Fatal(err)
	}
	defer cold.Close()
	run := func(i *Interpreter) {
		if o, err := i.Run(b.Context(), Program{Code: "print(1)"}); err != nil || o.Stdout != "1\n" {
			b.Fatal(o, err)
		}
	}
	bare := func() {
		out, err := exec.CommandContext(b.Context(), "bwrap", append(bareArgs(), "--", "/usr/bin/python3", "-c", "print(1)")...).Output()
		if err != nil || string(out) != "1\n" {
			b.Fatal(string(out), err)
		}
	}
	times := map[string][]time.Duration{}
	measure := func(name string, f func()) {
		start := time.Now()
		f()
		times[name] = append(times[name], time.Since(start))
	}
	for b.Loop() {
		waitReady(b, warm)
		measure("warm", func() { run(warm) })
		waitReady(b, warm)
		measure("cold", func() { run(cold) })
		measure("bare", bare)
	}
	for name, all := range times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
	}
}

// waitReady waits until a sandbox is ready and idle.
func waitReady(tb testing.TB, i *Interpreter) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		i.pool.mu.Lock()
		ready := len(i.pool.idle) == i.pool.warm
		i.pool.mu.Unlock()
		if ready {
			return
		}
	}
	tb.Fatal("no sandbox is ready")
}
