package machine

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

const sample = `4711 (a (strange) name) S 815 4711 4711 0 -1 4194560 1052 99 0 0 250 150 30 20 20 0 1 0 8123 1 2`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if want := (stat{parent: 815, own: 4 * time.Second, all: 4500 * time.Millisecond}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := parse([]byte("4711 (short) S 815")); err == nil {
		t.Error("half a line was accepted")
	}
}

func TestParseBusy(t *testing.T) {
	t.Parallel()
	got, err := parseBusy([]byte("cpu  100 10 50 9000 900 5 15 20 7 3\ncpu0 1 2 3\n"))
	if want := 2 * time.Second; err != nil || got != want {
		t.Errorf("read %v: %v; want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu  1 2 x 4 5 6 7 8", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, err := parseBusy([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if all, err := Busy(); !errors.Is(err, ErrNoProc) && (err != nil || all <= 0) {
		t.Errorf("busy for %v: %v", all, err)
	}
}

func TestCPUOfThisProcessGrows(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if errors.Is(err, ErrNoProc) {
		t.Skip("this system tells no CPU time of other processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after < before+30*time.Millisecond; {
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := CPU(1 << 30); err == nil || errors.Is(err, ErrNoProc) {
		t.Errorf("a process that is not there: %v", err)
	}
}

func TestTreeCPUCountsChildrenThatEnded(t *testing.T) {
	t.Parallel()
	before, err := TreeCPU(os.Getpid())
	if errors.Is(err, ErrNoProc) {
		t.Skip("this system tells no CPU time of other processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	after, err := TreeCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if after-before < used-2*tick {
		t.Errorf("grew by %v, the child took %v", after-before, used)
	}
}

func TestSyncTimeLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	median, err := SyncTime(dir)
	if err != nil || median <= 0 {
		t.Fatalf("took %v: %v", median, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v: %v", left, err)
	}
}
