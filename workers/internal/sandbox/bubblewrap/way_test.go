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
		testkit.Eventually(t, 30*time.Second, "the sandbox has used enough processor time", func() bool {
			u, err := x.Usage()
			return err == nil && u.CPU >= sandbox.GiveWayAfter
		})
		own, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
		its, err := unix.Getpriority(unix.PRIO_PROCESS, commandFor(x.cmd.Process.Pid))
		if err != nil || givesWay && its != 20-lowPriority || !givesWay && its != own { // the kernel encodes priorities as 20 - nice
			t.Errorf("gives way %t: %d, and this process %d: %v", givesWay, its, own, err)
		}
		x.Kill()
	}
}
