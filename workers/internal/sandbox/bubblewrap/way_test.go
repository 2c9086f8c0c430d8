//go:build linux

package bubblewrap

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
)

// After some processor time, a sandbox with GivesWay has a lower priority. Other sandboxes keep
// their priority.
func TestLongProgramsGiveWay(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, nil)
	for _, givesWay := range []bool{true, false} {
		c := code("while True: pass")
		c.GivesWay = givesWay
		x := start(t, b, c)
		over := time.After(testkit.Within(30 * time.Second))
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for used := time.Duration(0); used < sandbox.GiveWayAfter; {
			select {
			case <-tick.C:
			case <-over:
				t.Fatalf("the sandbox has used only %s", used)
			}
			if u, err := x.Usage(); err == nil {
				used = u.CPU
			}
		}
		own, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		its, err := unix.Getpriority(unix.PRIO_PROCESS, commandFor(x.cmd.Process.Pid))
		if err != nil || givesWay && its != 20-lowPriority || !givesWay && its != own { // the kernel encodes priorities as 20 - nice
			t.Errorf("gives way %t: %d, and this process %d: %v", givesWay, its, own, err)
		}
		x.Kill()
	}
}
