//go:build linux

package bubblewrap

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
)

// numbered returns a backend in which the first process of each sandbox has the given pid, as in a
// container.
func numbered(t *testing.T, number int) *Backend {
	t.Helper()
	b := opened(t, nil, errors.New("the test wants none"))
	b.bwrap = countingLauncher(b.bwrap[len(b.bwrap)-1], number)
	return b
}

// number returns a pid of at least 3. If taken is true, a process on this machine has this pid;
// otherwise, no process has this pid.
func number(t *testing.T, taken bool) int {
	t.Helper()
	for n := 3; n < 5000; n++ {
		if _, err := os.Stat("/proc/" + strconv.Itoa(n)); (err == nil) == taken {
			return n
		}
	}
	t.Skipf("every number below 5000 is taken: %v", !taken)
	return 0
}

func TestSandboxesStartWithoutAProcessOfPID2(t *testing.T) {
	t.Parallel()
	b := numbered(t, number(t, true))
	if text := said(t, start(t, b, code(`import os; print(os.getpid(), os.listdir("/work"))`))); text != "1 []\n" {
		t.Errorf("output = %q", text)
	}
	name := word()
	x := start(t, b, code(hostile, name))
	if line := make([]byte, 6); !readsFull(x.Stdout(), line) {
		t.Fatal(x.Stderr())
	}
	began := time.Now()
	x.Kill()
	if took := time.Since(began); took > testkit.Within(time.Second) {
		t.Errorf("killing the sandbox took %s", took)
	}
	if left := marked(t, name); len(left) > 0 {
		t.Errorf("%d processes live", len(left))
	}
}

// In a container, bwrap fails without the workaround in countingLauncher. This test makes bwrap
// fail in the same way.
func TestBwrapNeedsAProcessWithItsChildsPID(t *testing.T) {
	t.Parallel()
	free := number(t, false)
	x := start(t, numbered(t, free), code(`print("started")`))
	if text := said(t, x); text != "" || !strings.Contains(x.Stderr(), fmt.Sprintf("/proc/%d/ns", free)) {
		t.Errorf("%q, %q: number %d need not be there any more", text, x.Stderr(), free)
	}
}
