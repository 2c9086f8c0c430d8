package python

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLongProgramsGiveWay compares the priorities of programs with the priority of this process,
// which sandboxes inherit. If the inherited priority is already lower, it does not change.
func TestLongProgramsGiveWay(t *testing.T) {
	t.Parallel()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	own := 20 - raw // the kernel encodes priorities as 20 - nice
	began := time.Now()
	o := run(t, Program{Code: fmt.Sprintf(`import os, time
first, at = os.nice(0), time.time()
while os.nice(0) < %d and time.time() < at + 10:
    time.sleep(.05)
print(first, os.nice(0), int((at - %d / 1e6) * 1000))`, max(own, 10), began.UnixMicro())})
	var first, last, after int
	if _, err := fmt.Sscan(o.Stdout, &first, &last, &after); err != nil {
		t.Fatal(err, o.Stdout, o.Traceback)
	}
	if after < 250 && first != own || last != max(own, 10) {
		t.Errorf("this process has niceness %d; the sandbox, %d ms after its start, %d, and at the end %d", own, after, first, last)
	}
}
