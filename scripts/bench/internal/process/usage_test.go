package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

const sample = `4711 (a (strange) name) S 815 4711 4711 0 -1 4194560 1052 99 0 0 250 150 30 20 20 0 1 0 8123 1 2`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := parseStat([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if want := (stat{parent: 815, own: 4 * time.Second, all: 4500 * time.Millisecond}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if _, err := parseStat([]byte("4711 (short) S 815")); err == nil {
		t.Error("half a line was accepted")
	}
}

func TestTreeCPUCountsChildrenThatEnded(t *testing.T) {
	t.Parallel()
	if !hasProc() {
		t.Skip("NOT TESTED: CPU times: this system has no /proc")
	}

	before, err := TreeCPU(os.Getpid())
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

func TestMemoryOfThisProcessGrows(t *testing.T) { //nolint:paralleltest // other tests would free memory
	if !hasProc() {
		t.Skip("NOT TESTED: memory: this system has no /proc")
	}

	before, err := Memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}

	const more = 64 << 20
	block := make([]byte, more)
	for i := 0; i < more; i += 1 << 10 {
		block[i] = 1
	}

	after, err := Memory(os.Getpid())
	runtime.KeepAlive(block)
	if err != nil || after-before < more*3/4 || after-before > more*3/2 {
		t.Errorf("grew by %d after writing %d: %v", after-before, more, err)
	}
	if _, err := Memory(1 << 30); err == nil || errors.Is(err, ErrNoProc) {
		t.Errorf("a process that does not exist: %v", err)
	}
}
